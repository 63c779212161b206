"""Sweeps: concurrent workloads that each read all of the same data, not a share of it."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from stoker_tuning.training.unit_set import PAGE_UNITS, UnitSet
from stoker_tuning.training.workload import WorkloadTracker

Key = TypeVar("Key")

# Files that two independent readers must be expected to share before there is a judgement.
_FEWEST = 10.0
MEMBERS = 3  # workloads of a sweep; two may be a coincidence
# Three workloads that divide the data each read less of it in an epoch.
_DIVIDED = 0.5
# Accesses until the next search for a sweep: fewer add little. A search costs 1 us for two workloads and 32,768 units.
# For more, the interval grows so that each access pays 4 us at most.
_NEWS = 16
_PAIRS_AN_ACCESS = 4


class EpochRead(NamedTuple):
    """A workload's reads of its training data.

    ``number``: of its epoch; ``units``: read in it; ``most``: observed share of all units in an epoch, 0 to 1.
    """

    number: int
    units: UnitSet
    most: float


def siblings(read: Mapping[Key, EpochRead], units: int) -> dict[Key, int]:
    """Return for each workload the number of siblings that read the same data independently; 0 outside a sweep.

    Workloads that share an epoch (ranks of one training) read no unit twice in it. Independent readers share units by
    chance: the product of their shares of the ``units``. In different epochs ranks share units, too, so there it counts
    whether one of the two reads all data alone. Workloads with too few reads are left out.
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
    """Return True if the two read independently; None: they have read too little."""
    by_chance = len(one.units) * len(other.units) / max(1, units)
    if by_chance < _FEWEST:
        return None
    if one.number == other.number:
        return one.units.common(other.units) > by_chance / 2
    return True if max(one.most, other.most) > _DIVIDED else None


class SweepWatch(Generic[Key]):
    """Updates the workloads on one version about each other, whenever they have read enough."""

    def __init__(self) -> None:
        self._members: frozenset[Key] = frozenset()
        self._accesses = 0

    def look(self, trackers: Mapping[Key, WorkloadTracker]) -> None:
        """Compare the training workloads if they have new reads; call it after accesses and when a workload ends."""
        trained = {key: one for key, one in trackers.items() if one.phase.trained}
        accesses, members = sum(one.accesses for one in trained.values()), frozenset(trained)
        units = max((one.training_split_units for one in trained.values()), default=0)
        pairs = len(trained) * len(trained) * (1 + units // PAGE_UNITS)
        news = abs(accesses - self._accesses)  # fewer than before: one of them has restarted
        if members == self._members and news < max(_NEWS, pairs // _PAIRS_AN_ACCESS):
            return
        self._members, self._accesses = members, accesses
        for key, others in siblings({key: _read(one) for key, one in trained.items()}, units).items():
            trained[key].beside(others)


def _read(tracker: WorkloadTracker) -> EpochRead:
    return EpochRead(tracker.counted_epochs, tracker.training_units, tracker.most_of_training)
