"""Which events a change of a TrainingJob's status is worth."""

from collections.abc import Iterator

from stoker_api.meta import Condition
from stoker_api.names import ConditionType, Reason
from stoker_api.trainingjob import JobPhase, TrainingJobStatus
from stoker_operator.core.conditions import find
from stoker_operator.core.dataset_transitions import Announcement

# Phases that are told of, with the condition that says it best.
_TOLD = {
    JobPhase.STARTING: (Reason.STARTING, ConditionType.DATA_READY),
    JobPhase.RUNNING: (Reason.RUNNING, ConditionType.RUNNING),
    JobPhase.SUCCEEDED: (Reason.SUCCEEDED, ConditionType.COMPLETE),
    JobPhase.SUSPENDED: (Reason.SUSPENDED, ConditionType.SUSPENDED),
}
_GOOD = frozenset({Reason.RELEASED, Reason.ON_DEMAND, Reason.READY, Reason.WAITING_FOR_DATA})


def announcements(old: TrainingJobStatus, new: TrainingJobStatus) -> Iterator[Announcement]:
    """Events for what a person would want to be told, each once a transition."""
    for kind, bad in ((ConditionType.ACCEPTED, "False"), (ConditionType.FAILED, "True")):
        condition = find(new.conditions, kind)
        if condition and condition.status == bad and _moved(old, condition):
            yield Announcement("Warning", condition.reason, condition.message)
    data = find(new.conditions, ConditionType.DATA_READY)
    if data and _moved(old, data) and data.reason != Reason.READY:
        yield Announcement("Normal" if data.reason in _GOOD else "Warning", data.reason, data.message)
    if new.phase is not None and new.phase != old.phase and new.phase in _TOLD:
        reason, kind = _TOLD[new.phase]
        condition = find(new.conditions, kind)
        yield Announcement("Normal", reason, condition.message if condition else "")


def _moved(old: TrainingJobStatus, condition: Condition) -> bool:
    before = next((one for one in old.conditions if one.type == condition.type), None)
    return before is None or (before.status, before.reason) != (condition.status, condition.reason)
