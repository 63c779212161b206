"""Imports that a fetcher starts without: clients for peers, and for credentials other than plain keys."""

import subprocess
import sys

_HEAVY = {"aiohttp", "aiobotocore", "botocore"}


def test_a_fetcher_starts_without_aiohttp_and_botocore() -> None:
    code = f"import sys, stoker_sidecar.fetcher.zygote; print(sorted({_HEAVY} & {{*sys.modules}}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
