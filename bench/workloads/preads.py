"""B4: one large file read at random places, 4 KiB and 256 KiB each."""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.objects import paths
from bench.readers import Job, read_jobs
from bench.report import Row, sampled
from bench.scale import Corpus
from bench.systems import NATIVE, cold_volume, whole_ways

_SIZES = (4 * 1024, 256 * 1024)
_WARM_TURNS = 20  # of 5 ms for the small ones


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for both sizes, with the page cache dropped and warm."""
    size, places = env.scale.preads
    with env.corpus("b4", Corpus(1, size, 1)) as prefix, env.node() as node:
        volume, target = cold_volume(node, prefix)
        roots = whole_ways(node, volume, target)
        for piece in _SIZES:
            offsets = _offsets(size, piece, places)
            for dropped in (True, False):
                yield from _compare(env, roots, piece, offsets, dropped=dropped)


def _offsets(size: int, piece: int, places: int) -> list[int]:
    """Return the offsets: aligned to the piece, the same for all systems."""
    chance = random.Random(piece)
    return [chance.randrange(size // piece) * piece for _ in range(places)]


def _compare(
    env: Environment, roots: dict[str, Path], piece: int, offsets: Sequence[int], *, dropped: bool
) -> Iterator[Row]:
    case = f"{piece // 1024} KiB at random, page cache {'dropped' if dropped else 'warm'}"
    files = list(paths(Corpus(1, env.scale.preads[0], 1)))
    job = Job(files, piece, offsets if dropped else list(offsets) * _WARM_TURNS)

    def rate(root: Path) -> float:
        if dropped:
            drop_page_cache()
        else:
            read_jobs(root, [Job(files, piece, offsets)], piece * len(offsets))
        return read_jobs(root, [job], piece * job.items).rate

    rates = env.in_turns(f"B4: {case}", {system: partial(rate, root) for system, root in roots.items()})
    yield from sampled("B4", case, "preads/s", rates, NATIVE)
