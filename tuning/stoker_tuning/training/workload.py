"""One workload on one version: takes what is seen of it, and tells at any time what it does."""

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass

from stoker_tuning.training.accesses import AccessSampling, ModelFileAction, ModelFileUse, SeenAccess, SelfReport
from stoker_tuning.training.coverage import SplitCoverage
from stoker_tuning.training.epochs import Epoch
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.training.model_reads import ModelFileHistory, ModelReads
from stoker_tuning.training.patterns import WINDOW, PatternJudgement, Touch, judge
from stoker_tuning.training.phases import Evidence, PhaseState, advance, beside_others
from stoker_tuning.training.rates import RateMeter, Rates
from stoker_tuning.training.readers import Readers
from stoker_tuning.training.split_names import SplitSource
from stoker_tuning.training.unit_set import UnitSet
from stoker_tuning.training.window import ITEMS, EvidenceWindow
from stoker_tuning.vocabulary import AccessPattern, AccessSource, ModelFileKind, Split

_STATES = (ModelFileKind.CHECKPOINT, ModelFileKind.WEIGHTS, ModelFileKind.OPTIMIZER)  # what a checkpoint is made of
# Windows of data that are read while a checkpoint is written, after which its end is taken for lost.
_LONGEST_SAVE = 64
# Units that were read just before are no repeat: a file is opened to look at it, then to read it.
_RECENT = 256
_RECENT_SHARE = 8


@dataclass(frozen=True)
class WorkloadView:
    """What a workload does, with how sure that is.

    ``epoch``: of the training split, or of all data where none is known; ``epoch_source``: the pod's report, or the
    accesses. ``ranks``: processes that train together: told, or the stride of one that reads every so many items.
    ``model_files``: loads and saves of each, by name.
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
    """What is known of a workload. No clock: times come with what is seen.

    Memory: three bitmaps of the version's units at most for its splits (3.8 MB for 10 million files), 0.2 MB beside.
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
        self._saving = 0  # windows that may still pass before the checkpoint's end is taken for lost
        self._told = SelfReport(0.0)
        self._accesses = 0
        self._source = AccessSource.FUSE

    def resample(self, sampling: AccessSampling) -> None:
        """Take that another share of the accesses is seen from now on: what is estimated goes on with it."""
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
            self._close(access.seconds)  # a server may read nothing any more after this

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
        """Take that the workload's pod has got the data: it has begun, though it reads nothing yet."""
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
        """Take the pod's own word, which wins over what is seen."""
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
        """Take how many other workloads go through the same data by themselves, as ``sweeps`` tells."""
        self._siblings = siblings
        self._phase = beside_others(self._phase, siblings)

    def _close(self, seconds: float) -> None:
        """End the window: let what was seen vote."""
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
        """The units that were read in this epoch of the training split."""
        return self._coverage.counter(self._coverage.main_split).seen

    @property
    def training_split_units(self) -> int:
        """Units of that split in all."""
        return self._coverage.counter(self._coverage.main_split).units

    @property
    def most_of_training(self) -> float:
        """Share of that split that this epoch or the last one was seen to read."""
        return self._coverage.counter(self._coverage.main_split).most_read

    @property
    def counted_epochs(self) -> int:
        """Epochs that are behind the workload, by coverage alone."""
        return self._coverage.counter(self._coverage.main_split).number

    @property
    def accesses(self) -> int:
        """Accesses so far."""
        return self._accesses

    @property
    def epoch_number(self) -> int:
        """Epochs that are behind the workload, by the pod's word or by coverage."""
        return self.counted_epochs if self._told.epoch is None else self._told.epoch

    @property
    def phase(self) -> PhaseState:
        """What the workload does now."""
        return self._phase

    @property
    def memory(self) -> int:
        """Bytes of the bitmaps."""
        return self._coverage.memory

    def at(self, now: float) -> WorkloadView:
        """Return what is known at ``now``; a later moment alone changes the rates and nothing else."""
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
