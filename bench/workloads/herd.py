"""A herd in a model: what a bucket is asked for when hundreds of nodes ask for one cold version at once."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import median

from bench.environment import Environment
from bench.herd.decisions import NodeDecisions, divided_by_a_grid, divided_by_the_operator
from bench.herd.model import Herd, HerdOutcome, Lines
from bench.report import Row
from bench.scale import HerdSize
from bench.systems import STOKER
from stoker_sidecar.fetcher.core.division import DividedFile

WORKLOAD = "herd"
GRID = "a grid of neighbours"
ALONE = "one node alone"
GETS = "GETs at the bucket, x the pieces"
MOST = "GETs of one node at most, x the median"
SECONDS = "s until all have it"
# 1 Gbit/s a node, and ten times as much at the bucket.
_LINES = Lines(bucket=1.25e9, node=1.25e8)
_Decide = Callable[[int, Sequence[DividedFile]], list[NodeDecisions]]
# How nodes decide; and whether each begins at a place of its own with what others give.
_WAYS: dict[str, tuple[_Decide, bool]] = {
    STOKER: (divided_by_the_operator, False),
    GRID: (divided_by_a_grid, True),
}
_DEAD = 10  # of so many nodes one is dead from the start, in the harder case
_SEED = 14


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for a herd of nodes that all live, and for one of which a tenth is dead from the start."""
    size = env.scale.herd
    alone = outcome(HerdSize(1, size.pieces, size.size), GRID)
    dead = frozenset(Random(_SEED).sample(range(size.nodes), size.nodes // _DEAD))
    for state, gone in (("all alive", frozenset[int]()), ("a tenth dead", dead)):
        case = f"{size.nodes} nodes, {size.pieces:,} pieces, {state}"
        yield Row(WORKLOAD, case, ALONE, SECONDS, (alone.seconds,), ALONE)
        for system in _WAYS:
            env.say(f"{WORKLOAD}: {case}, {system}")
            yield from _rows(case, system, outcome(size, system, gone), size.pieces, gone)


def outcome(size: HerdSize, system: str, dead: frozenset[int] = frozenset()) -> HerdOutcome:
    """Return what comes of a herd that decides as ``system`` does. Pure."""
    decide, spread = _WAYS[system]
    files = [DividedFile(ino, size.size, True) for ino in range(1, size.pieces + 1)]
    decisions = decide(size.nodes, files)
    return Herd(decisions, size.pieces, size.size, _LINES, dead=dead, spread=spread, seed=_SEED).run()


def _rows(case: str, system: str, found: HerdOutcome, pieces: int, dead: frozenset[int]) -> Iterator[Row]:
    living = [gets for number, gets in enumerate(found.gets) if number not in dead]
    middle = median(living)
    # Where most ask for nothing, one counts for them.
    note = f"{max(living)} of one node, {middle:g} of the middle one"
    yield Row(WORKLOAD, case, system, GETS, (sum(found.gets) / pieces,))
    yield Row(WORKLOAD, case, system, MOST, (max(living) / max(middle, 1),), note=note)
    yield Row(WORKLOAD, case, system, SECONDS, (found.seconds,), ALONE)
