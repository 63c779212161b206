"""Choose the events for a change of a TrainingJob's status."""

from collections.abc import Iterator

from stoker_api.jobs.trainingjob import JobPhase, TrainingJobStatus, TrainingProgress
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_api.times import parse_time
from stoker_operator.core.jobs.jobs import FINISHED
from stoker_operator.core.jobs.training_progress import NEWS_SECONDS
from stoker_operator.core.status.dataset_transitions import Announcement, accepted_generation, moved, of_tuning
from stoker_operator.core.views.conditions import find
from stoker_tuning.vocabulary import TrainingPhase

# Phases with an event, and the condition with the best message.
_TOLD = {
    JobPhase.STARTING: (Reason.STARTING, ConditionType.DATA_READY),
    JobPhase.RUNNING: (Reason.RUNNING, ConditionType.RUNNING),
    JobPhase.SUCCEEDED: (Reason.SUCCEEDED, ConditionType.COMPLETE),
    JobPhase.SUSPENDED: (Reason.SUSPENDED, ConditionType.SUSPENDED),
}
_GOOD = frozenset({Reason.RELEASED, Reason.ON_DEMAND, Reason.READY, Reason.WAITING_FOR_DATA, Reason.LISTING})


def job_announcements(old: TrainingJobStatus, new: TrainingJobStatus) -> Iterator[Announcement]:
    """Return the events of a transition that a person wants to see."""
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
    if new.phase is not None and new.phase != old.phase and new.phase in _TOLD and not _is_restart(old, new):
        reason, kind = _TOLD[new.phase]
        condition = find(new.conditions, kind)
        yield Announcement("Normal", reason, condition.message if condition else "")
    if new.phase not in FINISHED:
        yield from _of_training(old.training, new.training)
    if is_reported(old, new) and new.goodput is not None:
        yield Announcement("Normal", Reason.GOODPUT, new.goodput.message)


def _is_restart(old: TrainingJobStatus, new: TrainingJobStatus) -> bool:
    """Return True if running workers are replaced. The Job has events for that."""
    return (old.phase, new.phase) == (JobPhase.RUNNING, JobPhase.STARTING)


def is_reported(old: TrainingJobStatus, new: TrainingJobStatus) -> bool:
    """Return True if the goodput is complete now, and was not before."""
    return new.goodput is not None and new.goodput.complete and not (old.goodput and old.goodput.complete)


def _of_training(old: TrainingProgress | None, new: TrainingProgress | None) -> Iterator[Announcement]:
    """Yield the event for a new phase of the training code.

    The message has no figures. So a repeated event of each epoch is counted in one object.
    """
    before = old.phase if old is not None else ""
    if new is not None and new.phase and new.phase != before and not _follows_a_short_one(old, new):
        said = f"its workers are in the phase {new.phase}" + (f", after {before}" if before else "")
        seen = "" if new.phase_source == EvidenceSource.REPORT else " (as their reads show)"
        yield Announcement("Normal", Reason.TRAINING_PHASE, said + seen)


def _follows_a_short_one(old: TrainingProgress | None, new: TrainingProgress) -> bool:
    """Return True if the previous phase was so short that events for both would be too many.

    Initialization does not count: it comes once, and the phase after it may stay for the rest of the job.
    """
    if old is None or old.phase in ("", TrainingPhase.INITIALIZATION):
        return False
    return parse_time(new.phase_since) - parse_time(old.phase_since) < NEWS_SECONDS
