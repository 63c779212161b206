"""Calls of the C library, as far as they can be tried without rights: memory that goes back to the kernel."""

import subprocess
import sys

# Pieces of a page each, as SQLite takes them, of which the last stays: malloc keeps all that lies before it.
_PROGRAM = """
import ctypes
from pathlib import Path
from stoker_sidecar.linux.libc import give_back_memory

def own():
    rows = dict(line.split()[:2] for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(rows["Anonymous:"]) * 1024

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = (ctypes.c_void_p,)
pieces = [libc.malloc(4368) for _ in range(8192)]
for piece in pieces:
    ctypes.memset(piece, 1, 4368)
for piece in pieces[:-1]:
    libc.free(piece)
before = own()
give_back_memory()
print(before - own() > 24 * 2**20)
"""


def test_memory_that_was_freed_before_what_is_in_use_goes_back_to_the_kernel() -> None:
    assert subprocess.check_output([sys.executable, "-c", _PROGRAM], text=True).strip() == "True"
