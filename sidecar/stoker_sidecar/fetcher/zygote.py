"""The zygote of the fetchers: has imported what they and their workers need, and forks one at the keeper's order."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

# Imported late elsewhere, since not every process needs it; here once for all: 0.23 s of CPU that each new worker would
# take whose credentials are not plain keys, and 11 MB that are shared.
import stoker_sidecar.store.s3_boto  # noqa: F401
from stoker_sidecar.fetcher import main as fetcher
from stoker_sidecar.store.connection import usual_tls_context
from stoker_sidecar.store.s3_descriptions import read_descriptions
from stoker_sidecar.wire.zygote_orders import run_zygote


def main(argv: Sequence[str] | None = None) -> int:
    """Fork until the keeper closes its end of the orders; returns the exit code."""
    with suppress(OSError):  # no such file: those who need it say so
        usual_tls_context(
            os.environ.get("AWS_CA_BUNDLE", "")
        )  # 50 ms of CPU that each new worker would take before its first request
    read_descriptions()  # else the first listing of each new fetcher waits for it
    return run_zygote(fetcher.main, "stoker-fetcher", argv)


if __name__ == "__main__":
    sys.exit(main())
