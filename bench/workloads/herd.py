"""A herd in a model: what a bucket is asked for when hundreds of nodes ask for one cold version at once."""

from collections.abc import Iterator
from random import Random
from statistics import median

from bench.environment import Environment
from bench.herd.decisions import decisions_of
from bench.herd.model import Herd, HerdOutcome, Lines
from bench.report import Row
from bench.scale import HerdSize
from bench.systems import STOKER
from stoker_sidecar.fetcher.core.division import DividedFile

WORKLOAD = "herd"
ALONE = "one node alone"
GETS = "GETs at the bucket, x the pieces"
MOST = "GETs of one node at most, x the median"
SECONDS = "s until all have it"
# 1 Gbit/s a node, and ten times as much at the bucket.
_LINES = Lines(bucket=1.25e9, node=1.25e8)
_DEAD = 10  # of so many nodes one is dead from the start, in the harder case
_SEED = 14


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for a herd of nodes that all live, and for one of which a tenth is dead from the start."""
    size = env.scale.herd
    alone = outcome(HerdSize(1, size.pieces, size.size))
    dead = frozenset(Random(_SEED).sample(range(size.nodes), size.nodes // _DEAD))
    for state, gone in (("all alive", frozenset[int]()), ("a tenth dead", dead)):
        case = f"{size.nodes} nodes, {size.pieces:,} pieces, {state}"
        yield Row(WORKLOAD, case, ALONE, SECONDS, (alone.seconds,), ALONE)
        env.say(f"{WORKLOAD}: {case}")
        yield from _rows(case, outcome(size, gone), size.pieces, gone)


def outcome(size: HerdSize, dead: frozenset[int] = frozenset()) -> HerdOutcome:
    """Return what comes of a herd. Pure."""
    files = [DividedFile(ino, size.size, True) for ino in range(1, size.pieces + 1)]
    decisions = decisions_of(size.nodes, files)
    return Herd(decisions, size.pieces, size.size, _LINES, dead=dead, seed=_SEED).run()


def _rows(case: str, found: HerdOutcome, pieces: int, dead: frozenset[int]) -> Iterator[Row]:
    living = [gets for number, gets in enumerate(found.gets) if number not in dead]
    middle = median(living)
    # Where most ask for nothing, one counts for them.
    note = f"{max(living)} of one node, {middle:g} of the middle one"
    yield Row(WORKLOAD, case, STOKER, GETS, (sum(found.gets) / pieces,))
    yield Row(WORKLOAD, case, STOKER, MOST, (max(living) / max(middle, 1),), note=note)
    yield Row(WORKLOAD, case, STOKER, SECONDS, (found.seconds,), ALONE)
