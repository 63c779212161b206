"""What a fetcher starts without: clients that it needs for other nodes, and for credentials that are no plain keys."""

import subprocess
import sys


def test_a_fetcher_starts_without_aiohttp_and_botocore() -> None:
    code = "import sys, stoker_sidecar.fetcher.zygote; "
        "print(sorted({'aiohttp', 'aiobotocore', 'botocore'} & {*sys.modules}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
