"""Sweeps: several workloads at the same time that each read all of the same data, not a share of it."""

from collections.abc import Mapping
from typing import TypeVar

from stoker_tuning.training.unit_set import UnitSet

Key = TypeVar("Key")

# Files that two are expected to have both read, if they read by themselves, before anything is said.
_FEWEST = 10.0
MEMBERS = 3  # workloads that are a sweep; two may be by chance


def siblings(coverage: Mapping[Key, UnitSet], units: int) -> dict[Key, int]:
    """Return for each workload how many others go through the same data by themselves: 0 where it is no sweep.

    ``coverage``: for each workload that trains on a version, the units it has read in its epoch.
    Who share an epoch (ranks of one training) read nothing twice; who read by themselves meet by chance, in as many
    units as the product of their shares. Workloads of which too little was read to say are left out.
    """
    found: dict[Key, int] = {}
    for key, mine in coverage.items():
        seen = [_alone(mine, other, units) for name, other in coverage.items() if name != key]
        alone, open_ = seen.count(True), seen.count(None)
        if alone >= MEMBERS - 1:
            found[key] = alone
        elif alone + open_ < MEMBERS - 1:
            found[key] = 0
    return found


def _alone(one: UnitSet, other: UnitSet, units: int) -> bool | None:
    """Tell whether two read by themselves; None: too little was read to tell."""
    by_chance = len(one) * len(other) / max(1, units)
    return one.common(other) > by_chance / 2 if by_chance >= _FEWEST else None
