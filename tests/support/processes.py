"""Processes of this machine, as tests look at them."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_sidecar.linux.libc import adopt_orphans

_PR_SET_CHILD_SUBREAPER = 36


def is_running(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not: it holds nothing, and its parent may take its time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process adopt orphans, as a keeper does, and no more afterwards: nobody would wait for them."""
    adopt_orphans()
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0)
