"""Imports that a fetcher starts without: clients for peers, and for credentials other than plain keys."""

import os
import subprocess
import sys

_HEAVY = {"aiohttp", "aiobotocore", "botocore"}


def test_a_fetcher_starts_without_aiohttp_and_botocore() -> None:
    code = f"import sys, stoker_sidecar.fetcher.zygote; print(sorted({_HEAVY} & {{*sys.modules}}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_zygote_without_keys_in_its_environment_loads_neither() -> None:
    code = (
        "import os, socket, sys\n"
        "from stoker_sidecar.fetcher import zygote\n"
        "keeper, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "keeper.close()\n"
        "heard, heartbeat = socket.socketpair()\n"
        "zygote.main([f'--orders-fd={orders.detach()}', f'--heartbeat-fd={heartbeat.detach()}'])\n"
        f"print(sorted({_HEAVY} & {{*sys.modules}}))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).strip() == "[]"
