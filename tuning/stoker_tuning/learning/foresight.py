"""Predicts the next data of a workload from the sequence of its phases, and the number of items until then.

A variable-order Markov model: it takes the phase that followed the last two phases, else the one that followed the last
phase. Without either it takes the usual phase (validation follows training if there is a validation split). Each
prediction is compared with the actual phase, for a hit rate. No clock is used: lengths are in items read.
"""

from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from stoker_tuning.learning.success import wilson
from stoker_tuning.vocabulary import Split, TrainingPhase

_KEPT = 8  # remembered lengths of each phase
_USUAL_CONFIDENCE = 0.3
_P = TrainingPhase
_USUAL = {
    _P.UNKNOWN: _P.INITIALIZATION,
    _P.INITIALIZATION: _P.TRAINING,
    _P.TRAINING: _P.VALIDATION,
    _P.VALIDATION: _P.TRAINING,
    _P.SAVE_CHECKPOINT: _P.TRAINING,
}


class Want(StrEnum):
    """The data that is wanted next."""

    TRAIN = Split.TRAIN.value
    VALIDATION = Split.VALIDATION.value
    TEST = Split.TEST.value
    WEIGHTS = "weights"
    NOTHING = "nothing"


_WANTS = {
    _P.INITIALIZATION: Want.WEIGHTS,
    _P.TRAINING: Want.TRAIN,
    _P.HYPERPARAM_TUNING: Want.TRAIN,
    _P.VALIDATION: Want.VALIDATION,
    _P.EVALUATION: Want.TEST,
    _P.INFERENCE: Want.WEIGHTS,
}


@dataclass(frozen=True, slots=True)
class Prediction:
    """The next phase, its data, the items until then (None: unknown), and the confidence, 0 to 1."""

    phase: TrainingPhase
    wants: Want
    items_left: float | None
    confidence: float


@dataclass(frozen=True, slots=True)
class HitRate:
    """The number of checked predictions, and the number of right ones."""

    predictions: int = 0
    hits: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share of right predictions, at 95 %."""
        return wilson(self.hits, self.predictions)


class Foresight:
    """The foresight for one workload. Its memory is bounded by the number of phases.

    ``splits``: the known splits of the Dataset; without a validation split, validation is not predicted by default.
    """

    def __init__(self, splits: frozenset[Split] = frozenset()) -> None:
        self.splits = splits
        self.hits = HitRate()
        self._before = TrainingPhase.UNKNOWN
        self._phase = TrainingPhase.UNKNOWN
        self._begun = 0.0
        self._items = 0.0
        self._followed: dict[tuple[TrainingPhase, ...], Counter[TrainingPhase]] = {}
        self._lengths: dict[TrainingPhase, deque[float]] = {}

    def saw(self, phase: TrainingPhase, items: float) -> bool | None:
        """Take the workload's phase after ``items`` items in all.

        Return True if a new phase was predicted, False if not; None if the phase is the same or there was no
        prediction.
        """
        self._items = max(items, self._items)
        if phase is self._phase:
            return None
        predicted = self.next()
        hit = None
        if predicted is not None and self._phase is not TrainingPhase.UNKNOWN:
            hit = predicted.phase is phase
            self.hits = HitRate(self.hits.predictions + 1, self.hits.hits + hit)
        self._learn(phase)
        self._before, self._phase, self._begun = self._phase, phase, self._items
        return hit

    def _learn(self, phase: TrainingPhase) -> None:
        for context in self._contexts():
            self._followed.setdefault(context, Counter())[phase] += 1
        self._lengths.setdefault(self._phase, deque(maxlen=_KEPT)).append(self._items - self._begun)

    def _contexts(self) -> tuple[tuple[TrainingPhase, ...], ...]:
        return (self._before, self._phase), (self._phase,)

    def next(self) -> Prediction | None:
        """Return the prediction of the next phase; None without evidence."""
        for context in self._contexts():
            followed = self._followed.get(context)
            if followed:
                phase, times = followed.most_common(1)[0]
                return self._prediction(phase, (times + 1) / (followed.total() + 2))
        usual = _USUAL.get(self._phase)
        if usual is None or (usual is TrainingPhase.VALIDATION and Split.VALIDATION not in self.splits):
            return None
        return self._prediction(usual, _USUAL_CONFIDENCE)

    def _prediction(self, phase: TrainingPhase, confidence: float) -> Prediction:
        lengths = self._lengths.get(self._phase)
        left = max(0.0, median(lengths) - (self._items - self._begun)) if lengths else None
        return Prediction(phase, _WANTS.get(phase, Want.NOTHING), left, confidence)
