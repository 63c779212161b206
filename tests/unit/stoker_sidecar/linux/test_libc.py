"""Calls of the C library that need no rights: memory is returned to the kernel, or kept."""

import subprocess
import sys

# Blocks of one page each, like SQLite's. The last one stays, so that malloc keeps all memory before it.
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


# A worker with bodies of 100 KiB: several in use, the oldest freed; then none.
_BODIES = """
import resource
from stoker_sidecar.linux.libc import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def take_bodies():
    for _ in range(50):
        bodies = [b"x" * 100_000 for _ in range(8)]
        del bodies

keep_freed_memory(8 * 2**20)
take_bodies()
before = faults()
take_bodies()
print((faults() - before) / 400 < 1)
"""


def test_buffers_that_come_and_go_cost_no_page_faults_where_freed_memory_is_kept() -> None:
    assert subprocess.check_output([sys.executable, "-c", _BODIES], text=True).strip() == "True"
