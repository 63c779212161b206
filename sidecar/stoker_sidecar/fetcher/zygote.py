"""The zygote of the fetchers: imports their modules and those of their workers, and forks on the keeper's order."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from stoker_sidecar.fetcher import main as fetcher
from stoker_sidecar.store.connection import usual_tls_context
from stoker_sidecar.store.core.s3_requests import environment_keys
from stoker_sidecar.wire.zygote_orders import run_zygote


def main(argv: Sequence[str] | None = None) -> int:
    """Fork until the keeper closes its end of the orders; returns the exit code."""
    with suppress(OSError):  # without the file, each user of it reports the error
        usual_tls_context(
            os.environ.get("AWS_CA_BUNDLE", "")
        )  # 50 ms of CPU that each new worker would take before its first request
    if environment_keys(os.environ) is None:
        _share_botocore()
    return run_zygote(fetcher.main, "stoker-fetcher", argv)


def _share_botocore() -> None:
    """Load the botocore parts for credentials other than plain keys. Mounts with plain keys start without them.

    Once for all: 0.25 s of CPU that each new worker would take otherwise, and 25 MB that are shared.
    """
    import stoker_sidecar.store.buckets.s3_boto  # noqa: F401 -- late, as said above
    from stoker_sidecar.store.buckets.s3_descriptions import read_descriptions

    read_descriptions()  # else the first client of each new worker waits for it


if __name__ == "__main__":
    sys.exit(main())
