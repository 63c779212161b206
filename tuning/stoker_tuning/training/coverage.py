"""How far a workload has read each split of a version, and the splits by behavior."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stoker_tuning.training.accesses import AccessSampling, SeenAccess
from stoker_tuning.training.epochs import Epoch, EpochCounter
from stoker_tuning.training.layout import DatasetLayout, FileRun
from stoker_tuning.training.split_names import SplitSource
from stoker_tuning.vocabulary import Split


class SplitCoverage:
    """An epoch counter for each split."""

    def __init__(self, layout: DatasetLayout, sampling: AccessSampling, node_share: float) -> None:
        self._layout = layout
        self._sampling = sampling
        self._node_share = node_share
        self._counters: dict[Split, EpochCounter] = {}
        self._unit_bytes: dict[Split, float] = {}
        self._by_group: Mapping[str, Split] = {}
        unknown = {run.group for run in layout.runs if run.source is SplitSource.UNKNOWN}
        self._behaviour = GroupBehaviour(layout, sampling.share) if len(unknown) > 1 else None
        named = {run.split for run in layout.runs}
        self._main = Split.TRAIN if Split.TRAIN in named else Split.UNKNOWN

    @property
    def main_split(self) -> Split:
        """The split whose epochs count: training, or all data without a known training split."""
        return self._main

    def resample(self, sampling: AccessSampling) -> None:
        """Set another sampling from now on."""
        self._sampling = sampling
        for counter in self._counters.values():
            counter.sampling = sampling
        if self._behaviour:
            self._behaviour.share = sampling.share

    def split(self, run: FileRun) -> Split:
        """Return the split of a run's files, as known so far."""
        return self._by_group.get(run.group, run.split) if run.split is Split.UNKNOWN else run.split

    def counter(self, split: Split) -> EpochCounter:
        """Return the counter of a split."""
        counter = self._counters.get(split)
        if counter is None:
            runs = [run for run in self._layout.runs if self.split(run) is split]
            units = max(1, sum(run.units for run in runs))
            self._unit_bytes[split] = max(1.0, sum(run.bytes for run in runs) / units)
            counter = self._counters[split] = EpochCounter(units, self._sampling, self._node_share)
        return counter

    def read(self, run: FileRun, split: Split, unit: int, access: SeenAccess, *, new: bool) -> None:
        """Note a read of a unit of a split; ``new``: the unit was not read just before."""
        counter = self.counter(split)
        begun = False
        if access.length:
            begun = counter.read(min(1.0, access.length / self._unit_bytes[split]))
        elif new:
            begun = counter.read(1.0)
        if not new:
            return
        if split is Split.UNKNOWN and self._behaviour:
            self._behaviour.touch(run.group, unit)
        begun = counter.touch(unit, access.seconds) or begun
        if begun and split is Split.UNKNOWN and self._behaviour:
            self._learn(counter)

    def _learn(self, unknown: EpochCounter) -> None:
        """Find the splits from the behavior of two epochs; the epoch number continues."""
        self._by_group = self._behaviour.splits() if self._behaviour else {}
        if self._by_group:
            self._behaviour = None
            self._main = Split.TRAIN
            self.counter(Split.TRAIN).number = unknown.number

    def epoch(self, told: int | None) -> Epoch:
        """Return the position in the main split; a reported number wins."""
        epoch = self.counter(self._main).at
        return epoch if told is None else replace(epoch, number=told)

    def splits(self) -> tuple[tuple[Split, SplitSource, int], ...]:
        """Return the splits, each with its source and its number of files."""
        counts: Counter[tuple[Split, SplitSource]] = Counter()
        for run in self._layout.runs:
            learnt = run.split is Split.UNKNOWN and run.group in self._by_group
            counts[self.split(run), SplitSource.BEHAVIOUR if learnt else run.source] += run.files
        return tuple((split, source, files) for (split, source), files in sorted(counts.items()))

    @property
    def memory(self) -> int:
        """Bytes of the bitmaps."""
        return sum(counter.memory for counter in self._counters.values())


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
