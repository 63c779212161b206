"""Mounts that only one process of a test sees, and that end with it."""

from pathlib import Path

_SCRIPT = 'mkdir -p "$0" && mount -t tmpfs stoker-test "$0" && exec "$@"'


def own_mounts_with(folder: Path) -> tuple[str, ...]:
    """Return the command prefix for a separate mount namespace with one mount at ``folder``."""
    return "unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, str(folder)
