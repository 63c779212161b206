"""One workload on one version: takes its observations, and describes its behavior at any time."""

import itertools
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from stoker_tuning.training.accesses import (
    ITEMS,
    AccessSampling,
    EvidenceWindow,
    ModelFileAction,
    ModelFileUse,
    SeenAccess,
    SelfReport,
)
from stoker_tuning.training.coverage import SplitCoverage
from stoker_tuning.training.epochs import Epoch
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.training.model_reads import ModelFileHistory, ModelReads
from stoker_tuning.training.patterns import WINDOW, PatternJudgement, Touch, judge
from stoker_tuning.training.phases import Evidence, PhaseState, advance, beside_others
from stoker_tuning.training.split_names import SplitSource
from stoker_tuning.training.unit_set import UnitSet
from stoker_tuning.vocabulary import AccessPattern, AccessSource, ModelFileKind, Split

_KEPT_TIMES = 512  # times
_GAP = 4.0  # medians: a longer pause separates two batches
_SHORTEST = 0.005  # seconds: a shorter gap is no pause, for any median
_FEWEST_BATCHES = 3


@dataclass(frozen=True)
class Rates:
    """Items per second, seconds between batches, items per batch (both 0: reads come without batches), longest gap."""

    items_per_second: float
    batch_seconds: float
    batch_items: int
    longest_gap: float


@dataclass
class RateMeter:
    """The times of the last 512 items; ``share``: the observed share of the items."""

    share: float = 1.0
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_TIMES))

    def item(self, seconds: float) -> None:
        """Note a read of an item."""
        self._times.append(seconds)

    def at(self, now: float) -> Rates:
        """Return the present rates: a pause lowers them."""
        times = list(self._times)
        if len(times) < 2:
            return Rates(0.0, 0.0, 0, 0.0)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        elapsed = max(now, times[-1]) - times[0]
        rate = (len(times) - 1) / elapsed / self.share if elapsed > 0 else 0.0
        return Rates(rate, *_batches(times, gaps), max(gaps))


def _batches(times: Sequence[float], gaps: Sequence[float]) -> tuple[float, int]:
    """Return the seconds between batches and the items per batch, by pauses; zeros without batches."""
    limit = max(_SHORTEST, _GAP * median(gaps))
    starts = [index + 1 for index, gap in enumerate(gaps) if gap > limit]
    if len(starts) <= _FEWEST_BATCHES:
        return 0.0, 0
    between = [times[later] - times[earlier] for earlier, later in itertools.pairwise(starts)]
    items = [later - earlier for earlier, later in itertools.pairwise(starts)]
    return median(between), round(median(items))


_KEPT = 256  # readers, the most recent ones


@dataclass
class Readers:
    """The last 256 readers, each with its file and offset."""

    _at: OrderedDict[int, tuple[int, int]] = field(default_factory=OrderedDict)

    def follow(self, access: SeenAccess) -> tuple[bool, bool]:
        """Note an access. Return whether its reader was in the same file before, and whether it continues there."""
        before = self._at.get(access.reader)
        self._at[access.reader] = access.file, access.offset + access.length
        self._at.move_to_end(access.reader)
        if len(self._at) > _KEPT:
            self._at.popitem(last=False)
        if before is None or before[0] != access.file:
            return False, False
        return True, before[1] == access.offset


_STATES = (ModelFileKind.CHECKPOINT, ModelFileKind.WEIGHTS, ModelFileKind.OPTIMIZER)  # the parts of a checkpoint
# Windows with data reads during a checkpoint's write; after them its end counts as missed.
_LONGEST_SAVE = 64
# A unit that was read just before is no repeat: programs open a file to inspect it, then to read it.
_RECENT = 256
_RECENT_SHARE = 8


@dataclass(frozen=True)
class WorkloadView:
    """A workload's behavior, with its confidence.

    ``epoch``: of the training split, or of all data without a known split; ``epoch_source``: the pod's report, or the
    accesses. ``ranks``: processes that train together, by report, or the stride of a strided reader. ``model_files``:
    loads and saves of each, by name.
    """

    phase: PhaseState
    epoch: Epoch
    epoch_source: AccessSource
    pattern: PatternJudgement
    rates: Rates
    splits: tuple[tuple[Split, SplitSource, int], ...]
    readers: int
    ranks: int | None
    accesses: int
    model_files: Mapping[str, ModelFileHistory]


class WorkloadTracker:
    """All observations of a workload. It has no clock: the observations carry times.

    Memory: at most three bitmaps of the version's units for its splits (3.8 MB for 10 million files), and 0.2 MB more.
    """

    def __init__(
        self,
        layout: DatasetLayout,
        sampling: AccessSampling | None = None,
        node_share: float = 1.0,
        window: int = WINDOW,
    ) -> None:
        self._layout = layout
        self._coverage = SplitCoverage(layout, sampling or AccessSampling(), node_share)
        self._models = ModelReads(layout)
        self._readers = Readers()
        self._rates = RateMeter((sampling or AccessSampling()).share)
        self._touches: deque[Touch] = deque(maxlen=window)
        self._begun: deque[Touch] = deque(maxlen=window)
        self._recent: OrderedDict[int, None] = OrderedDict()
        self._most_recent = min(_RECENT, sum(run.units for run in layout.runs) // _RECENT_SHARE)
        self._window = EvidenceWindow()
        self._phase = PhaseState()
        self._siblings = 0
        self._saving = 0  # windows left before the checkpoint's end counts as missed
        self._told = SelfReport(0.0)
        self._accesses = 0
        self._source = AccessSource.FUSE

    def resample(self, sampling: AccessSampling) -> None:
        """Set another sampling from now on; the estimates continue."""
        self._coverage.resample(sampling)
        self._rates.share = sampling.share

    def saw(self, access: SeenAccess) -> None:
        """Take one access."""
        if self._window.due(access.seconds):
            self._close(access.seconds)
        self._window.begin(access.seconds)
        self._accesses += 1
        self._source = access.source
        same_file, contiguous = self._readers.follow(access)
        if access.file in self._layout.model_files:
            self._model(access, same_file=same_file, contiguous=contiguous)
        else:
            self._data(access, same_file)
        if self._window.count >= ITEMS:
            self._close(access.seconds)

    def _model(self, access: SeenAccess, *, same_file: bool, contiguous: bool) -> None:
        loaded = self._models.loaded
        self._window.model(small=self._models.read(access, same_file=same_file, contiguous=contiguous))
        if self._models.loaded and not loaded:
            self._close(access.seconds)  # a server may read nothing after this

    def _data(self, access: SeenAccess, same_file: bool) -> None:
        run = self._layout.run(access.file)
        if run is None:
            self._window.other()
            return
        split = self._coverage.split(run)
        unit = self._layout.unit(access.file, access.offset)
        new = not self._was_recent(unit)
        self._coverage.read(run, split, unit, access, new=new)
        if new:
            self._window.item(split)
            self._rates.item(access.seconds)
        if new or same_file:
            self._note_order(Touch(unit, access.offset, access.offset + access.length, access.reader, same_file))

    def _note_order(self, touch: Touch) -> None:
        self._touches.append(touch)
        if not touch.within:
            self._begun.append(touch)

    def _was_recent(self, unit: int) -> bool:
        if unit in self._recent:
            self._recent.move_to_end(unit)
            return True
        self._recent[unit] = None
        if len(self._recent) > self._most_recent:
            self._recent.popitem(last=False)
        return False

    def mounted(self, seconds: float) -> None:
        """Note that the workload's pod has its data: it has started, though it reads nothing yet."""
        self._close(seconds)
        self._phase = advance(self._phase, Evidence(seconds, mounted=True))

    def used(self, use: ModelFileUse) -> None:
        """Take the load or save of a model file."""
        self._close(use.seconds)
        self._models.used(use)
        if use.kind not in _STATES:
            return
        if use.action is ModelFileAction.LOADED:
            self._window.begin(use.seconds)
            self._window.model(small=False)
            return
        self._saving = _LONGEST_SAVE if use.action is ModelFileAction.SAVING else 0
        self._phase = advance(self._phase, Evidence(use.seconds, saving=bool(self._saving), saved=not self._saving))

    def reported(self, report: SelfReport) -> None:
        """Take the pod's report, which wins over observations."""
        self._close(report.seconds)
        told = self._told
        self._told = SelfReport(
            report.seconds,
            report.phase or told.phase,
            told.epoch if report.epoch is None else report.epoch,
            report.ranks or told.ranks,
        )
        if report.phase:
            self._phase = advance(self._phase, Evidence(report.seconds, told=report.phase))

    def beside(self, siblings: int) -> None:
        """Take the number of other workloads that each read the same data completely, from ``sweeps``."""
        self._siblings = siblings
        self._phase = beside_others(self._phase, siblings)

    def _close(self, seconds: float) -> None:
        """End the window: its evidence votes."""
        window, self._window = self._window, EvidenceWindow()
        if window.begun is None:
            return
        if self._saving:
            self._saving -= 1
            return
        unsplit = Split.UNKNOWN in window.items
        evidence = Evidence(
            seconds,
            tuple(window.items.items()),
            self.pattern().pattern if unsplit else AccessPattern.UNKNOWN,
            self._coverage.counter(Split.UNKNOWN).number if unsplit else 0,
            window.model_reads,
            window.model_small_reads,
            self._models.loaded,
            self._layout.only_models,
            self._siblings,
            window.other_reads,
        )
        self._phase = advance(self._phase, evidence)

    def pattern(self) -> PatternJudgement:
        """Judge the order of the last accesses."""
        split = self._coverage.main_split
        return judge(tuple(self._touches), tuple(self._begun), self._layout.units(split))

    @property
    def training_units(self) -> UnitSet:
        """The units read in this epoch of the training split."""
        return self._coverage.counter(self._coverage.main_split).seen

    @property
    def training_split_units(self) -> int:
        """Units of the training split."""
        return self._coverage.counter(self._coverage.main_split).units

    @property
    def most_of_training(self) -> float:
        """Share of the training split that was observed in this epoch or the last one."""
        return self._coverage.counter(self._coverage.main_split).most_read

    @property
    def counted_epochs(self) -> int:
        """Completed epochs, by coverage only."""
        return self._coverage.counter(self._coverage.main_split).number

    @property
    def accesses(self) -> int:
        """Accesses so far."""
        return self._accesses

    @property
    def epoch_number(self) -> int:
        """Completed epochs, by the pod's report or by coverage."""
        return self.counted_epochs if self._told.epoch is None else self._told.epoch

    @property
    def phase(self) -> PhaseState:
        """The present phase."""
        return self._phase

    @property
    def memory(self) -> int:
        """Bytes of the bitmaps."""
        return self._coverage.memory

    def at(self, now: float) -> WorkloadView:
        """Return the view at ``now``; without new accesses only the rates change with time."""
        pattern = self.pattern()
        strided = pattern.step if pattern.pattern is AccessPattern.STRIDED and pattern.step > 1 else None
        return WorkloadView(
            self._phase,
            self._coverage.epoch(self._told.epoch),
            self._source if self._told.epoch is None else AccessSource.REPORT,
            pattern,
            self._rates.at(now),
            self._coverage.splits(),
            len({touch.reader for touch in self._touches}),
            self._told.ranks or strided,
            self._accesses,
            self._models.history,
        )
