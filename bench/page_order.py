"""What two ways of reading ahead in a known order are worth on a disk: sorted by place, and given back when read.

Files are read one after the other in a random order, an order of its own for each epoch, with memory for a tenth of
them, while windows of them are brought into the page cache before. **As they come**: each window in the order of
reading. **By place**: in the order in which the files lie on the disk, as FIEMAP says. **Given back**: pages of what
was read are dropped (POSIX_FADV_DONTNEED), instead of leaving that to the kernel.
"""

import fcntl
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.errors import BenchError
from bench.measure import drop_page_cache
from bench.memory_limit import memory_limit
from bench.scale import SMALL_BYTES
from stoker_sidecar.fetcher.page_cache import PageRange, PageReader

FILES, REPEATS = 10_000, 3
_EPOCHS, _WINDOW, _AHEAD = 3, 256, 2  # files of a window, and windows ahead
_SHARE, _OWN = 1 / 10, 40 * 2**20  # of the files' bytes; and for the process
_FS_IOC_FIEMAP = 0xC020660B
_REQUEST, _EXTENT = struct.Struct("=QQIIII"), struct.Struct("=QQQ")  # of an extent: its place among others
_FOLDERS = 100
WAYS = ("nothing ahead", "as they come", "by place", "given back")


@dataclass(frozen=True)
class WayFigures:
    """Files a second in one way, by run."""

    way: str
    rates: tuple[float, ...]


def measure_ways(cache_dir: Path, files: int = FILES, repeats: int = REPEATS) -> list[WayFigures]:
    """Measure each way so many times, in turns. Raises BenchError."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="skb-", dir=cache_dir) as folder:
        _write(Path(folder), files)
        with memory_limit(int(files * SMALL_BYTES * _SHARE) + _OWN) as limit:
            for number in range(repeats):
                for way in WAYS if number % 2 == 0 else reversed(WAYS):
                    drop_page_cache()
                    command = [sys.executable, "-m", "bench.page_order", folder, way]
                    ended = subprocess.run(
                        limit.command(command), capture_output=True, text=True, timeout=600, check=False
                    )
                    if ended.returncode:
                        raise BenchError(f"reading {way} failed: {ended.stderr[-500:]}")
                    rates[way].append(float(ended.stdout))
    return [WayFigures(way, tuple(found)) for way, found in rates.items()]


def show_ways(figures: Sequence[WayFigures], result: Path) -> str:
    """Write the figures as JSON, and return them as a table."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps([asdict(each) for each in figures], indent=1))
    rows = [("files ahead of a reader", "files/s", "from", "to")]
    for each in figures:
        median, low, high = statistics.median(each.rates), min(each.rates), max(each.rates)
        rows.append((each.way, f"{median:,.0f}", f"{low:,.0f}", f"{high:,.0f}"))
    return "\n".join("  ".join(f"{cell:>24}" for cell in row) for row in rows)


def physical_place(path: str) -> int:
    """Return where on its disk a file begins, as FIEMAP says; 0 where that is not known. Raises OSError."""
    buffer = bytearray(_REQUEST.pack(0, 2**64 - 1, 0, 0, 1, 0) + bytes(56))
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, _FS_IOC_FIEMAP, buffer)
    finally:
        os.close(fd)
    mapped = _REQUEST.unpack_from(buffer)[3]
    place: int = _EXTENT.unpack_from(buffer, _REQUEST.size)[1]
    return place if mapped else 0


def _write(folder: Path, files: int) -> None:
    """Write files in an order of their own, as they come from a bucket by several workers."""
    for number in range(_FOLDERS):
        (folder / f"d{number:03d}").mkdir()
    for number in random.Random(files).sample(range(files), files):
        (folder / f"d{number % _FOLDERS:03d}" / f"{number:07d}").write_bytes(os.urandom(SMALL_BYTES))


def _bring(window: Sequence[str], way: str) -> None:
    order = sorted(window, key=physical_place) if way == "by place" else window
    PageReader((PageRange(path, 0, SMALL_BYTES) for path in order), lambda brought: 2**62).run()


def _read(window: Sequence[str], way: str) -> None:
    buffer = bytearray(SMALL_BYTES + 1)
    for path in window:
        fd = os.open(path, os.O_RDONLY)
        while os.readv(fd, [buffer]):
            pass
        if way == "given back":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def _epoch(files: Sequence[str], way: str) -> None:
    windows = [files[at : at + _WINDOW] for at in range(0, len(files), _WINDOW)]
    with ThreadPoolExecutor(_AHEAD) as ahead:
        coming = [ahead.submit(_bring, window, way) for window in windows[:_AHEAD]] if way != WAYS[0] else []
        for number, window in enumerate(windows):
            if coming:
                coming[number].result()
                coming += [ahead.submit(_bring, one, way) for one in windows[number + _AHEAD : number + _AHEAD + 1]]
            _read(window, way)


def main() -> None:
    """Be the process that reads: FOLDER WAY; prints files/s."""
    files = sorted(str(path) for path in Path(sys.argv[1]).rglob("*") if path.is_file())
    began = time.monotonic()
    for epoch in range(_EPOCHS):
        _epoch(random.Random(epoch).sample(files, len(files)), sys.argv[2])
    print(_EPOCHS * len(files) / (time.monotonic() - began))


if __name__ == "__main__":
    main()
