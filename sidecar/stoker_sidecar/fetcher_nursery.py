"""A process that has imported all that the fetcher and its workers need, and forks a fetcher whenever the keeper asks."""

import sys
from collections.abc import Sequence

from stoker_sidecar import fetcher
from stoker_sidecar.keep.forking import run_nursery


def main(argv: Sequence[str] | None = None) -> int:
    """Until the keeper closes its end of the orders. Returns the exit code."""
    return run_nursery(fetcher.main, "stoker-fetcher", argv)


if __name__ == "__main__":
    sys.exit(main())
