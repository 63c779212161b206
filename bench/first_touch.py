"""What writing costs in memory that a virtual machine's host has taken back: `python -m bench.first_touch` measures it.

A guest with free page reporting (virtio balloon) tells its host every two seconds of blocks of 2 MiB and more that are
free, and the host takes them back. To touch one again is a fault in the host, whose time counts as CPU of the
instruction that touched it: of the kernel's copy into the page cache, where a file system takes large folios from such
blocks, as ext4 does and tmpfs does not. How fast a large file is written so depends on how long memory has been free.
"""

import argparse
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import MIB

_HUGE = 2 * MIB
_PIECE = 16 * MIB


def take_memory(size: int) -> None:
    """Touch ``size`` bytes in huge pages and free them: whoever allocates next gets memory that the host has given."""
    with mmap.mmap(-1, size + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for offset in range(0, size, _HUGE):
            memory[offset] = 1


def write_seconds(folder: Path, size: int) -> float:
    """Write ``size`` bytes to a file that does not stay; return the CPU seconds."""
    piece = os.urandom(_PIECE)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        start = time.thread_time()
        for _ in range(0, size, _PIECE):
            file.write(piece)
        return time.thread_time() - start


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m bench.first_touch", description=__doc__)
    found.add_argument("--cache-dir", type=Path, default=Path("/var/tmp"), help="where to write (default %(default)s)")
    found.add_argument("--mib", type=int, default=1024, help="MiB to write each time (default %(default)s)")
    found.add_argument("--pause", type=float, default=10.0, help="seconds that memory is free (default %(default)s)")
    found.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Write again and again, with and without a pause, and print the CPU seconds a GiB; return the exit code."""
    options = parser().parse_args(argv)
    size = options.mib * MIB

    def show(when: str) -> None:
        print(f"{when:45} {write_seconds(options.cache_dir, size) / size * 2**30:.2f} CPU s a GiB", flush=True)

    write_seconds(options.cache_dir, size)
    for _ in range(options.rounds):
        show("in memory that was freed just now")
        time.sleep(options.pause)
        show(f"in memory that has been free for {options.pause:.0f} s")
        time.sleep(options.pause)
        take_memory(size)
        show("the same, but touched just before")
    return 0


if __name__ == "__main__":
    sys.exit(main())
