"""The zygote of the FUSE servers: has imported all that a FUSE server needs, and forks one whenever the keeper asks.

Milliseconds, not 0.3 s.
"""

import sys
from collections.abc import Sequence

from stoker_sidecar.fuse import main as server
from stoker_sidecar.wire.zygote_orders import run_zygote


def main(argv: Sequence[str] | None = None) -> int:
    """Fork servers until the keeper closes its end of the orders; the exit code."""
    return run_zygote(server.main, "stoker-fs", argv)


if __name__ == "__main__":
    sys.exit(main())
