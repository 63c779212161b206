"""How far a workload has read each split of a version, and the splits by behavior."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from stoker_tuning.training.accesses import AccessSampling, SeenAccess
from stoker_tuning.training.behaviour import GroupBehaviour
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
