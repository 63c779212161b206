"""The limit on open files of a process and its children."""

import resource
from contextlib import suppress

# Enough for all connections and files of one process. Some programs iterate over all numbers below the limit.
_MOST = 65_536


def raise_open_files() -> None:
    """Raise the soft limit to the hard one, up to 65,536. Container runtimes start processes with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
