"""Checks of this machine's processes for tests."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_sidecar.linux.libc import adopt_orphans

_PR_SET_CHILD_SUBREAPER = 36


def is_running(pid: int) -> bool:
    """Return True if a process runs. A zombie does not run: it holds no resources, and its parent may reap it late."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process adopt orphans, as a keeper does. End it afterwards, because orphans would not be reaped."""
    adopt_orphans()
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0)
