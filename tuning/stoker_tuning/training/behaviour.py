"""Splits by behaviour, where neither rule nor name tells: what is read every epoch against what is read rarely.

What is shuffled and read most is training data. What is read in order beside it, or less than half as often, is
validation data; what was read once in four epochs or more is test data. It says nothing before two epochs.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.training.split_names import SplitSource
from stoker_tuning.vocabulary import Split

_MEMORY = 16  # units that were read just before: a neighbour among them is order
_RARELY = 0.5  # of the passes of the group that is read most
_IN_ORDER = 0.6
_OUT_OF_ORDER = 0.3
_TWO_EPOCHS = 1.8  # passes: the last one may be under way
_TEST_AFTER = 4
_MOST_ONCE = 1.2
# Units of a group: of fewer, order is chance.
_FEWEST = 8


@dataclass
class GroupReads:
    """What was read of a group: units, and how many of these came after their neighbour."""

    touches: int = 0
    in_order: int = 0


@dataclass
class GroupBehaviour:
    """How each group (folder at the top) of a version is read. Memory: two numbers a group."""

    layout: DatasetLayout
    share: float = 1.0
    _groups: dict[str, GroupReads] = field(default_factory=dict)
    _recent: deque[int] = field(default_factory=lambda: deque(maxlen=_MEMORY))

    def touch(self, group: str, unit: int) -> None:
        """Note that a unit of a group is read."""
        reads = self._groups.setdefault(group, GroupReads())
        reads.touches += 1
        reads.in_order += unit - 1 in self._recent
        self._recent.append(unit)

    def splits(self) -> Mapping[str, Split]:
        """Return the split of each group that behaviour tells; empty: all groups are read alike, or too little."""
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
    """Tell the split of a group that was passed so often, in order or not, where another was passed ``most``."""
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
