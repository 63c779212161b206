"""Finds splits by behavior if neither rules nor names give them: by how often and in which order data is read.

The data that is shuffled and read most is training data. Data that is read in order next to it, or less than half as
often, is validation data. Data that is read once in four epochs or more is test data. Before two epochs there is no
result.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.training.split_names import SplitSource
from stoker_tuning.vocabulary import Split

_MEMORY = 16  # last units: a unit whose predecessor is among them counts as in order
_RARELY = 0.5  # share of the passes of the most-read group
_IN_ORDER = 0.6
_OUT_OF_ORDER = 0.3
_TWO_EPOCHS = 1.8  # passes: the last one may be incomplete
_TEST_AFTER = 4
_MOST_ONCE = 1.2
# Units of a group: in smaller groups, order is chance.
_FEWEST = 8


@dataclass
class GroupReads:
    """The reads of a group: units, and those that came soon after their predecessor."""

    touches: int = 0
    in_order: int = 0


@dataclass
class GroupBehaviour:
    """How each group (top folder) of a version is read. Memory: two numbers per group."""

    layout: DatasetLayout
    share: float = 1.0
    _groups: dict[str, GroupReads] = field(default_factory=dict)
    _recent: deque[int] = field(default_factory=lambda: deque(maxlen=_MEMORY))

    def touch(self, group: str, unit: int) -> None:
        """Note a read of a unit of a group."""
        reads = self._groups.setdefault(group, GroupReads())
        reads.touches += 1
        reads.in_order += unit - 1 in self._recent
        self._recent.append(unit)

    def splits(self) -> Mapping[str, Split]:
        """Return the split of each group by behavior; empty if all groups are read alike or the reads are too few."""
        units = _units(self.layout)
        known = {name: reads for name, reads in self._groups.items() if units.get(name, 0) >= _FEWEST}
        passes = {name: reads.touches / self.share / units[name] for name, reads in known.items()}
        order = {name: reads.in_order / reads.touches for name, reads in known.items()}
        most = max(
            (passes[name] for name in known if order[name] <= _OUT_OF_ORDER), default=max(passes.values(), default=0.0)
        )
        if most < _TWO_EPOCHS:
            return {}
        shuffled = any(order[name] <= _OUT_OF_ORDER and passes[name] > _RARELY * most for name in known)
        splits = {name: _split(passes[name], order[name], most, shuffled) for name in known}
        return splits if len(set(splits.values())) > 1 else {}


def _split(passes: float, order: float, most: float, shuffled: bool) -> Split:
    """Return the split of a group with these passes and this order, if the most-read group had ``most`` passes."""
    if most >= _TEST_AFTER and passes <= _MOST_ONCE:
        return Split.TEST
    if passes <= _RARELY * most or (shuffled and order >= _IN_ORDER):
        return Split.VALIDATION
    return Split.TRAIN


def _units(layout: DatasetLayout) -> dict[str, int]:
    units: dict[str, int] = {}
    for run in layout.runs:
        if run.source in (SplitSource.UNKNOWN, SplitSource.BEHAVIOUR):
            units[run.group] = units.get(run.group, 0) + run.units
    return units
