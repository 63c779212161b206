"""Sweeps: several workloads at the same time that each read all of the same data, not a share of it."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from stoker_tuning.training.unit_set import PAGE_UNITS, UnitSet
from stoker_tuning.training.workload import WorkloadTracker

Key = TypeVar("Key")

# Files that two are expected to have both read, if they read by themselves, before anything is said.
_FEWEST = 10.0
MEMBERS = 3  # workloads that are a sweep; two may be by chance
# More of the data than this is read in an epoch by none of three that divide it.
_DIVIDED = 0.5
# Accesses after which a sweep is looked for again: fewer tell nothing new. A look costs 1 us for two workloads and
# 32,768 units, so as many more that it costs each access 4 us at most.
_NEWS = 16
_PAIRS_AN_ACCESS = 4


class EpochRead(NamedTuple):
    """What a workload has read of the data it trains on.

    ``number``: of its epoch; ``units``: read in it; ``most``: of all, what it was seen to read in an epoch, 0 to 1.
    """

    number: int
    units: UnitSet
    most: float


def siblings(read: Mapping[Key, EpochRead], units: int) -> dict[Key, int]:
    """Return for each workload how many others go through the same data by themselves: 0 where it is no sweep.

    Who share an epoch (ranks of one training) read nothing twice in it; who read by themselves meet by chance, in as
    many of the ``units`` as the product of their shares. In different epochs ranks meet as well, so there it counts
    whether one of the two reads all by itself. Workloads of which too little was read to say are left out.
    """
    found: dict[Key, int] = {}
    for key, mine in read.items():
        seen = [_alone(mine, other, units) for name, other in read.items() if name != key]
        alone, open_ = seen.count(True), seen.count(None)
        if alone >= MEMBERS - 1:
            found[key] = alone
        elif alone + open_ < MEMBERS - 1:
            found[key] = 0
    return found


def _alone(one: EpochRead, other: EpochRead, units: int) -> bool | None:
    """Tell whether two read by themselves; None: too little was read to tell."""
    by_chance = len(one.units) * len(other.units) / max(1, units)
    if by_chance < _FEWEST:
        return None
    if one.number == other.number:
        return one.units.common(other.units) > by_chance / 2
    return True if max(one.most, other.most) > _DIVIDED else None


class SweepWatch(Generic[Key]):
    """Tells the workloads on one version of each other, each time that they have read enough to know more."""

    def __init__(self) -> None:
        self._members: frozenset[Key] = frozenset()
        self._accesses = 0

    def look(self, trackers: Mapping[Key, WorkloadTracker]) -> None:
        """Look at those that train, if there is news of them; to be called after accesses, and when one is gone."""
        trained = {key: one for key, one in trackers.items() if one.phase.trained}
        accesses, members = sum(one.accesses for one in trained.values()), frozenset(trained)
        units = max((one.training_split_units for one in trained.values()), default=0)
        pairs = len(trained) * len(trained) * (1 + units // PAGE_UNITS)
        news = abs(accesses - self._accesses)  # fewer than before: one of them was begun anew
        if members == self._members and news < max(_NEWS, pairs // _PAIRS_AN_ACCESS):
            return
        self._members, self._accesses = members, accesses
        for key, others in siblings({key: _read(one) for key, one in trained.items()}, units).items():
            trained[key].beside(others)


def _read(tracker: WorkloadTracker) -> EpochRead:
    return EpochRead(tracker.counted_epochs, tracker.training_units, tracker.most_of_training)
