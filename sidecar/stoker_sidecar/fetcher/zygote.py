"""The zygote of the fetchers: imports their modules and those of their workers, and forks on the keeper's order."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from stoker_sidecar.fetcher import main as fetcher
from stoker_sidecar.store.connection import usual_tls_context
from stoker_sidecar.wire.zygote_orders import run_zygote


def main(argv: Sequence[str] | None = None) -> int:
    """Fork until the keeper closes its end of the orders; returns the exit code."""
    with suppress(OSError):  # without the file, each user of it reports the error
        usual_tls_context(
            os.environ.get("AWS_CA_BUNDLE", "")
        )  # 50 ms of CPU that each new worker would take before its first request
    return run_zygote(fetcher.main, "stoker-fetcher", argv)


if __name__ == "__main__":
    sys.exit(main())
