"""B4: one large file read at random places, 4 KiB and 256 KiB each."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.bed import Bed
from bench.measure import drop_page_cache
from bench.objects import paths
from bench.readers import Job, read_jobs
from bench.report import Row
from bench.scale import Corpus
from bench.subjects import NATIVE, cold_volume, whole_ways

_SIZES = (4 * 1024, 256 * 1024)
_WARM_TURNS = 20  # of 5 ms for the small ones


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for both sizes, with the page cache dropped and warm."""
    size, places = bed.scale.preads
    with bed.corpus("b4", Corpus(1, size, 1)) as prefix, bed.node() as node:
        volume, target = cold_volume(node, prefix)
        roots = whole_ways(node, volume, target)
        for piece in _SIZES:
            offsets = _offsets(size, piece, places)
            for dropped in (True, False):
                yield from _compare(bed, roots, piece, offsets, dropped=dropped)


def _offsets(size: int, piece: int, places: int) -> list[int]:
    """Where to read: aligned to the piece, the same places for all."""
    chance = random.Random(piece)
    return [chance.randrange(size // piece) * piece for _ in range(places)]


def _compare(bed: Bed, roots: dict[str, Path], piece: int, offsets: Sequence[int], *, dropped: bool) -> Iterator[Row]:
    case = f"{piece // 1024} KiB at random, page cache {'dropped' if dropped else 'warm'}"
    files = list(paths(Corpus(1, bed.scale.preads[0], 1)))
    job = Job(files, piece, offsets if dropped else list(offsets) * _WARM_TURNS)
    rates: dict[str, list[float]] = {subject: [] for subject in roots}
    for subject in bed.turns(f"B4: {case}", roots):
        if dropped:
            drop_page_cache()
        else:
            read_jobs(roots[subject], [Job(files, piece, offsets)], piece * len(offsets))
        rates[subject].append(read_jobs(roots[subject], [job], piece * job.items).rate)
    for subject, samples in rates.items():
        yield Row("B4", case, subject, "preads/s", tuple(samples), NATIVE)
