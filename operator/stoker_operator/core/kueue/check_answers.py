"""Answers to Kueue about a Workload. It must not hold quota while its data is cold.

A pending check holds the quota that Kueue reserved. So a Workload with quota and cold data gets `Retry`, which releases
the quota. `requeueState.requeueAt` keeps it out of the queue until its data is warm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.meta import shortened
from stoker_api.times import format_time, parse_time
from stoker_operator.core.kueue.kueue_objects import AdmissionCheckView, CheckEntry, CheckState, QueuedWorkload
from stoker_operator.core.kueue.warm_check import Outlook, StartVerdict
from stoker_operator.core.views.earlier_wait import format_earlier_wait, length_of

# Seconds that a Workload stays out of the queue at a time. If the operator stops, Kueue queues it again after that. It
# then waits with its quota for the operator's return.
HOLD = 300.0
_MOST_MESSAGE = 2000  # characters; Kueue allows 32768


@dataclass(frozen=True)
class CheckAnswer:
    """The write for one check. ``requeue_at``: seconds since the epoch, None: unchanged."""

    check: CheckEntry
    state: CheckState
    message: str
    requeue_at: float | None = None
    updates: Sequence[Mapping[str, Any]] = ()
    urgent: bool = False  # more than a new message


def active_condition(check: AdmissionCheckView, now: float) -> dict[str, Any] | None:
    """Return the condition Active to write, or None if it is up to date."""
    refused = isinstance(check.terms, Refusal)
    said = {
        "type": "Active",
        "status": "False" if refused else "True",
        "reason": "BadParameters" if refused else "Active",
        "message": check.terms.sentence if isinstance(check.terms, Refusal) else "Stoker answers this check",
        "observedGeneration": check.generation,
    }
    old = check.active or {}
    if all(old.get(name) == value for name, value in said.items()):
        return None
    since = old.get("lastTransitionTime") if old.get("status") == said["status"] else None
    return said | {"lastTransitionTime": since or format_time(now)}


def decide_answer(
    workload: QueuedWorkload, check: CheckEntry, verdict: StartVerdict, now: float, *, annotates: bool = True
) -> CheckAnswer | None:
    """Decide what to write for a check. Return None if it is up to date, or Kueue must act first.

    ``annotates``: the check may change the pods. Kueue accepts each annotation from one check only, so only one of the
    operator's checks may.
    """
    if workload.reserved and workload.evicted:
        return None
    state = _state(workload, verdict)
    if state is CheckState.READY and check.state == CheckState.READY:
        return None  # its message stays; Kueue admits it once all checks are ready
    requeue_at = _requeue_at(workload, state, verdict, now)
    message = shortened(verdict.sentence, _MOST_MESSAGE)
    moved = requeue_at is not None and (state is CheckState.RETRY or requeue_at != workload.requeue_at)
    urgent = state != check.state or (moved and state is not CheckState.RETRY)
    if not urgent and message == check.message:
        return None
    updates = _updates(workload, check, state, verdict, now) if annotates else ()
    return CheckAnswer(check, state, message, requeue_at, updates, urgent)


def status_patch(
    workload: QueuedWorkload, answers: Sequence[CheckAnswer], ours: Sequence[CheckEntry], now: float
) -> dict[str, Any]:
    """Build the body of a server-side apply.

    It contains all checks of the operator, because apply removes missing ones.
    """
    told = {answer.check.name: answer for answer in answers}
    rows = [_row(told[one.name], now) if one.name in told else _same_row(one) for one in ours]
    status: dict[str, Any] = {"admissionChecks": rows}
    requeue_at = max((one.requeue_at for one in answers if one.requeue_at is not None), default=None)
    if requeue_at is None and workload.requeue_is_ours and workload.held_back:
        requeue_at = workload.requeue_at
    if requeue_at is not None:
        status["requeueState"] = {"requeueAt": format_time(requeue_at)}
    meta = {"namespace": workload.namespace, "name": workload.name, "uid": workload.uid}
    # The resourceVersion makes the write fail if the object changed after this decision.
    return {"metadata": meta | {"resourceVersion": workload.resource_version}, "status": status}


def _state(workload: QueuedWorkload, verdict: StartVerdict) -> CheckState:
    if verdict.outlook is Outlook.REFUSED:
        return CheckState.REJECTED
    if not workload.reserved:
        return CheckState.PENDING  # checked again when there is quota
    return CheckState.READY if verdict.outlook is Outlook.READY else CheckState.RETRY


def _requeue_at(workload: QueuedWorkload, state: CheckState, verdict: StartVerdict, now: float) -> float | None:
    """Return the time until which Kueue ignores the Workload. Return None if another controller set it."""
    if state is CheckState.RETRY:
        return float(int(now + HOLD))
    if state is not CheckState.PENDING or not workload.held_back or not workload.requeue_is_ours:
        return None
    if verdict.outlook is Outlook.READY:
        return min(workload.requeue_at, float(int(now)))
    # Kueue checks only the time, so extend it before it passes.
    late = workload.requeue_at - now < HOLD / 2
    return float(int(now + HOLD)) if late else workload.requeue_at


def _updates(
    workload: QueuedWorkload, check: CheckEntry, state: CheckState, verdict: StartVerdict, now: float
) -> Sequence[Mapping[str, Any]]:
    """Return the annotations to add to the pods: the Datasets that they mount, and the earlier wait.

    The wait of a Workload that was sent back is noted when its data is warm. After that, Kueue forgets which check sent
    it back. An older note may remain when Kueue sets the check to pending. The operator may remove what it wrote.
    """
    if state is CheckState.READY:
        notes = {name: {names.ANNOTATION_DATASETS: text} for name, text in verdict.annotate.items()}
        return _with_wait(notes, verdict, now - _waited(workload, check, verdict, now), now)
    if state is not CheckState.PENDING:
        return ()
    if verdict.outlook is Outlook.READY and workload.held_back and workload.requeue_is_ours:
        return _with_wait({}, verdict, parse_time(check.since), now)
    return check.updates if _noted(check) else ()


def _with_wait(
    notes: dict[str, dict[str, str]], verdict: StartVerdict, since: float, now: float
) -> list[dict[str, Any]]:
    """Build the updates. Held pod sets get a wait from ``since`` until now. 0.0: the start is unknown."""
    for name in verdict.waiting if 0.0 < since < now else ():
        notes.setdefault(name, {})[names.ANNOTATION_WAITED] = format_earlier_wait(since, now)
    return [{"name": name, "annotations": said} for name, said in notes.items()]


def _waited(workload: QueuedWorkload, check: CheckEntry, verdict: StartVerdict, now: float) -> float:
    """Return the seconds of maxWait that a starting Workload has used.

    If its data is cold, its whole age counts. Otherwise only the noted wait counts. Time spent waiting for its turn,
    for ready pods or for other checks is not Stoker's. Its pods may need their maxWait for room.
    """
    age = max(0.0, now - workload.created) if workload.created else 0.0
    return age if verdict.cold else min(age, _noted(check))


def _noted(check: CheckEntry) -> float:
    """Return the noted seconds of waiting since the check last became pending."""
    began = parse_time(check.since)
    said = (text for one in check.updates if (text := (one.get("annotations") or {}).get(names.ANNOTATION_WAITED)))
    return max((length_of(text, began) for text in said), default=0.0)


def _row(answer: CheckAnswer, now: float) -> dict[str, Any]:
    old = answer.check
    since = old.since if old.state == answer.state and old.since else format_time(now)
    row = {"name": old.name, "state": answer.state.value, "lastTransitionTime": since, "message": answer.message}
    return row | ({"podSetUpdates": list(answer.updates)} if answer.updates else {})


def _same_row(old: CheckEntry) -> dict[str, Any]:
    row = {"name": old.name, "state": old.state, "lastTransitionTime": old.since, "message": old.message}
    return row | ({"podSetUpdates": list(old.updates)} if old.updates else {})
