"""The phase of a workload: a pure state machine over windows of evidence.

Time is no evidence: a phase lasts until evidence supports another one. A window votes for one phase or for none. A
certain vote (the pod's report, or a checkpoint under way) takes effect at once. Any other vote needs a second window,
unless the phase is still unknown.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from stoker_tuning.vocabulary import AccessPattern, Split, TrainingPhase

# Support (the sum of the scores of consecutive windows) that a new phase needs: two good windows, or three weak ones.
_NEEDED = 1.2
_STEADY = 0.005  # a smaller change of confidence is ignored
_AT_FIRST = 0.4  # while the phase is unknown


class Vote(NamedTuple):
    """The phase that a window supports, the confidence (0 to 1), and whether it takes effect at once."""

    phase: TrainingPhase
    score: float
    at_once: bool = False


@dataclass(frozen=True)
class Evidence:
    """The observations of one window.

    ``items``: units of data read, by split. ``shuffled``, ``epochs``: of the data without a known split.
    ``model_reads``: reads of model files; ``model_small_reads``: small ones that continue no earlier read.
    ``model_loaded``: the weights were read completely so far; ``only_models``: the workload mounts no data.
    ``siblings``: other workloads that each read all of the same data. ``other_reads``: of other files. ``mounted``: its
    pod has just got the data. ``told``: the phase from the pod's report; ``saving``: a checkpoint's write is under way;
    ``saved``: it has ended.
    """

    seconds: float
    items: tuple[tuple[Split, int], ...] = ()
    pattern: AccessPattern = AccessPattern.UNKNOWN
    epochs: int = 0
    model_reads: int = 0
    model_small_reads: int = 0
    model_loaded: bool = False
    only_models: bool = False
    siblings: int = 0
    other_reads: int = 0
    mounted: bool = False
    told: TrainingPhase | None = None
    saving: bool = False
    saved: bool = False


@dataclass(frozen=True)
class PhaseState:
    """The phase, its confidence (0 to 1), the time of the first window for it, and the support for another phase.

    ``trained``: training data was read; ``told``: the pod reports its phases.
    """

    phase: TrainingPhase = TrainingPhase.UNKNOWN
    confidence: float = 0.0
    since: float = 0.0
    trained: bool = False
    told: bool = False
    pending: TrainingPhase | None = None
    support: float = 0.0
    pending_since: float = 0.0


def advance(state: PhaseState, evidence: Evidence) -> PhaseState:
    """Return the state after a window. Pure; a window without evidence changes nothing."""
    if evidence.told:
        state = replace(state, told=True, trained=state.trained or evidence.told in _TRAINS)
        return _followed(state, Vote(evidence.told, 1.0, at_once=True), evidence.seconds)
    if state.told:
        return state  # a reporting pod needs no guess
    vote = vote_of(state, evidence)
    if vote is None:
        return state
    if not state.trained and vote.phase in _TRAINS:
        state = replace(state, trained=True)
    return _followed(state, vote, evidence.seconds)


_TRAINS = (TrainingPhase.TRAINING, TrainingPhase.HYPERPARAM_TUNING)


def beside_others(state: PhaseState, siblings: int) -> PhaseState:
    """Return the state with the number of other workloads that each read the same data completely. Pure.

    The workload's behavior is the same. Only the name of its training changes, so it does at once.
    """
    if state.told:
        return state
    name = _training(siblings)
    phase = name if state.phase in _TRAINS else state.phase
    pending = name if state.pending in _TRAINS else state.pending
    return replace(state, phase=phase, pending=pending)


def _training(siblings: int) -> TrainingPhase:
    return TrainingPhase.HYPERPARAM_TUNING if siblings else TrainingPhase.TRAINING


def _followed(state: PhaseState, vote: Vote, seconds: float) -> PhaseState:
    """Count a vote: it confirms the phase, adds support for another one, or changes the phase."""
    if vote.phase is state.phase:
        confidence = vote.score if vote.at_once else (state.confidence + vote.score) / 2
        if state.pending is None and abs(confidence - state.confidence) < _STEADY:
            return state
        return replace(state, confidence=confidence, pending=None, support=0.0)
    goes_on = vote.phase is state.pending
    support = vote.score + (state.support if goes_on else 0.0)
    since = state.pending_since if goes_on else seconds
    needed = _AT_FIRST if state.phase is TrainingPhase.UNKNOWN else _NEEDED
    if not vote.at_once and support < needed:
        return replace(state, pending=vote.phase, support=support, pending_since=since)
    return replace(state, phase=vote.phase, confidence=vote.score, since=since, pending=None, support=0.0)


def vote_of(state: PhaseState, evidence: Evidence) -> Vote | None:
    """Return the vote of a window, in this order: a checkpoint, data, model files, other files."""
    if evidence.saving or evidence.saved:
        return Vote(TrainingPhase.SAVE_CHECKPOINT, 0.95, at_once=True)
    if evidence.items:
        return _by_data(state, evidence)
    if evidence.model_reads:
        return _by_model_files(state, evidence)
    if (evidence.other_reads or evidence.mounted) and state.phase in (
        TrainingPhase.UNKNOWN,
        TrainingPhase.INITIALIZATION,
    ):
        return Vote(TrainingPhase.INITIALIZATION, 0.6)
    return None


def _by_data(state: PhaseState, evidence: Evidence) -> Vote:
    """Vote by the split with the most items."""
    split, most = max(evidence.items, key=lambda item: item[1])
    share = most / sum(count for _, count in evidence.items)
    if split is Split.TEST:
        return Vote(TrainingPhase.EVALUATION, 0.9 * share)
    if split is Split.VALIDATION:
        if state.trained:
            return Vote(TrainingPhase.VALIDATION, 0.9 * share)
        alone = TrainingPhase.EVALUATION if evidence.model_loaded else TrainingPhase.VALIDATION
        return Vote(alone, 0.7 * share)
    training = _training(evidence.siblings)
    if split is Split.TRAIN:
        return Vote(training, 0.9 * share)
    return _by_unsplit_data(evidence, training)


def _by_unsplit_data(evidence: Evidence, training: TrainingPhase) -> Vote:
    """Vote without known splits: shuffled or repeated data is training."""
    if evidence.pattern is AccessPattern.SHUFFLED or evidence.epochs:
        return Vote(training, 0.8)
    if evidence.model_loaded and evidence.pattern is AccessPattern.SEQUENTIAL:
        return Vote(TrainingPhase.EVALUATION, 0.5)
    return Vote(training, 0.5)


def _by_model_files(state: PhaseState, evidence: Evidence) -> Vote | None:
    """Vote on reads of model files only: they are loaded to train or to serve."""
    if state.trained:
        return None  # the best checkpoint is loaded again: the purpose is open
    if evidence.model_loaded and evidence.only_models:
        return Vote(TrainingPhase.INFERENCE, 0.6 if not evidence.model_small_reads else 0.9, at_once=True)
    if evidence.model_loaded and 2 * evidence.model_small_reads >= evidence.model_reads:
        return Vote(TrainingPhase.INFERENCE, 0.8)
    return Vote(TrainingPhase.INITIALIZATION, 0.7)
