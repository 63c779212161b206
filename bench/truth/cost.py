"""What following a workload costs: `python -m bench.truth.cost [FILES [ACCESSES]]`. CPU of one core, and memory."""

import random
import sys
import time
import tracemalloc
from collections.abc import Iterator

from stoker_tuning.training.accesses import SeenAccess
from stoker_tuning.training.layout import DatasetLayout, FileFact, make_layout
from stoker_tuning.training.workload import WorkloadTracker
from stoker_tuning.vocabulary import AccessSource

_FILES = 1_000_000
_ACCESSES = 200_000
_READERS = 16
_SIZE = 100_000


def facts(count: int) -> Iterator[FileFact]:
    """Name files as ImageNet does: a thousand classes below two splits, a tenth of them to validate."""
    for number in range(count):
        split = "val" if number >= count * 9 // 10 else "train"
        yield FileFact(number, f"{split}/n{number * 2000 // count:08}/{number:08}.JPEG", _SIZE)


def follow(layout: DatasetLayout, accesses: list[SeenAccess]) -> tuple[float, WorkloadTracker]:
    """Return the seconds that following took, and the tracker."""
    tracker = WorkloadTracker(layout)
    started = time.process_time()
    for access in accesses:
        tracker.saw(access)
    return time.process_time() - started, tracker


def main() -> None:
    """Print one line for each figure."""
    count, number = (int(word) for word in (*sys.argv[1:], *(str(_FILES), str(_ACCESSES))[len(sys.argv) - 1 :]))
    started = time.process_time()
    layout = make_layout(facts(count))
    print(f"layout of {count:,} files: {(time.process_time() - started) / count * 1e6:.2f} us a file")
    noise = random.Random(1)
    order = (file for _ in range(-(-number // count)) for file in noise.sample(range(count), min(number, count)))
    source = AccessSource.FANOTIFY
    opens = [
        SeenAccess(index / 1000, file, 0, 0, index % _READERS, source)
        for index, file in zip(range(number), order, strict=False)
    ]
    print(f"an open: {follow(layout, opens)[0] / number * 1e6:.2f} us")
    reads = [
        SeenAccess(index / 1000, index // 8, index % 8 * 131072, 131072, 1, AccessSource.FUSE)
        for index in range(number)
    ]
    print(f"a read of 128 KiB, of eight a file: {follow(layout, reads)[0] / number * 1e6:.2f} us")
    tracemalloc.start()
    _, tracker = follow(layout, opens)
    kept = tracemalloc.get_traced_memory()[0]
    print(f"memory of a workload: {kept / 1e6:.2f} MB, of which bitmaps {tracker.memory / 1e6:.2f} MB")
    tracemalloc.stop()
    started = time.process_time()
    for _ in range(1000):
        tracker.at(1e6)
    print(f"a view: {(time.process_time() - started) * 1e3:.0f} us")


if __name__ == "__main__":
    main()
