"""Which events a change of a TrainingJob's status is worth."""

from collections.abc import Iterator

from stoker_api.names import ConditionType, Reason
from stoker_api.node_workload import EvidenceSource
from stoker_api.trainingjob import JobPhase, TrainingJobStatus, TrainingProgress
from stoker_operator.core.conditions import find
from stoker_operator.core.dataset_transitions import Announcement, accepted_generation, moved, of_tuning

# Phases that are told of, with the condition that says it best.
_TOLD = {
    JobPhase.STARTING: (Reason.STARTING, ConditionType.DATA_READY),
    JobPhase.RUNNING: (Reason.RUNNING, ConditionType.RUNNING),
    JobPhase.SUCCEEDED: (Reason.SUCCEEDED, ConditionType.COMPLETE),
    JobPhase.SUSPENDED: (Reason.SUSPENDED, ConditionType.SUSPENDED),
}
_GOOD = frozenset({Reason.RELEASED, Reason.ON_DEMAND, Reason.READY, Reason.WAITING_FOR_DATA})


def job_announcements(old: TrainingJobStatus, new: TrainingJobStatus) -> Iterator[Announcement]:
    """Choose events for what a person would want to be told, each once a transition."""
    for kind, bad in ((ConditionType.ACCEPTED, "False"), (ConditionType.FAILED, "True")):
        condition = find(new.conditions, kind)
        if condition and condition.status == bad and moved(old.conditions, condition):
            yield Announcement("Warning", condition.reason, condition.message)
    accepted = find(new.conditions, ConditionType.ACCEPTED)
    if accepted and accepted.status == "True" and new.observed_generation != old.observed_generation:
        yield accepted_generation(new.observed_generation)
    data = find(new.conditions, ConditionType.DATA_READY)
    if data and moved(old.conditions, data) and data.reason != Reason.READY:
        yield Announcement("Normal" if data.reason in _GOOD else "Warning", data.reason, data.message)
    yield from of_tuning(old.conditions, new.conditions)
    order = find(new.conditions, ConditionType.ORDER)
    if order and order.reason == Reason.ORDER_WRONG and moved(old.conditions, order):
        yield Announcement("Warning", order.reason, order.message)
    if new.phase is not None and new.phase != old.phase and new.phase in _TOLD:
        reason, kind = _TOLD[new.phase]
        condition = find(new.conditions, kind)
        yield Announcement("Normal", reason, condition.message if condition else "")
    yield from _of_training(old.training, new.training)
    if is_reported(old, new) and new.goodput is not None:
        yield Announcement("Normal", Reason.GOODPUT, new.goodput.message)


def is_reported(old: TrainingJobStatus, new: TrainingJobStatus) -> bool:
    """Tell whether what it made of its time is whole now, and was not before."""
    return new.goodput is not None and new.goodput.complete and not (old.goodput and old.goodput.complete)


def _of_training(old: TrainingProgress | None, new: TrainingProgress | None) -> Iterator[Announcement]:
    """Tell of another phase of the training code.

    The sentence has no figures, so an event that comes again each epoch is counted in one object and makes no others.
    """
    before = old.phase if old is not None else ""
    if new is not None and new.phase and new.phase != before:
        said = f"its workers are in the phase {new.phase}" + (f", after {before}" if before else "")
        seen = "" if new.phase_source == EvidenceSource.REPORT else " (as their reads show)"
        yield Announcement("Normal", Reason.TRAINING_PHASE, said + seen)
