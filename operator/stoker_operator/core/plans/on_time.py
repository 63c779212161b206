"""Decide whether a Dataset becomes warm by its deadline, from the rates that its nodes measure."""

from collections.abc import Iterable
from dataclasses import dataclass

from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import Condition, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_api.times import format_time, parse_time
from stoker_operator.core.views.conditions import ConditionSet, find

# A late Dataset counts as on time again only if its estimate fits into this part of the time left.
_CALM = 0.9
LATE_REASONS = (Reason.DEADLINE_MISSED, Reason.DEADLINE_AT_RISK)


@dataclass(frozen=True, slots=True)
class WarmOutlook:
    """Progress of a warm-up.

    ``eta``: seconds left at the measured rates; None: not measured. ``forecast``: expected seconds before data moves;
    None: unknown. ``homeless``: replicas without a node.
    """

    done: bool
    paused: bool
    eta: float | None = None
    forecast: float | None = None
    homeless: int = 0


def due_time(dataset: Dataset, now: float) -> float | None:
    """Return the deadline in seconds since the epoch, or None without a deadline.

    A missed time of day stays until the Dataset is warm. Then the next one counts. A stored deadline after the next one
    comes from a clock that was ahead, so it is ignored.
    """
    if (deadline := dataset.spec.warm.deadline) is None:
        return None
    last, status = parse_time(dataset.status.warm_by), dataset.status
    warm = find(status.conditions, ConditionType.WARM)
    same = status.observed_generation == dataset.metadata.generation
    due = deadline.due(now)
    missed = deadline.daily is not None and same and not (warm and warm.status == "True")
    return last if missed and due is not None and 0.0 < last < due else due


def late_reason(conditions: Iterable[Condition]) -> Reason | None:
    """Return why a Dataset with these conditions is late, or expected to be; None if it is not."""
    on_time = find(conditions, ConditionType.ON_TIME)
    return next((reason for reason in LATE_REASONS if on_time is not None and on_time.reason == reason), None)


def set_on_time(
    out: ConditionSet, old: Iterable[Condition], due: float | None, progress: WarmOutlook, now: float
) -> None:
    """Set the condition OnTime. Without a deadline, set nothing."""
    if due is None:
        return
    by = f"warm.deadline is {format_time(due)}"
    if progress.done:
        out.set(ConditionType.ON_TIME, True, Reason.WARM, f"it is warm; {by}")
    elif now >= due:
        out.set(ConditionType.ON_TIME, False, Reason.DEADLINE_MISSED, f"{by}, and it is not warm yet")
    elif progress.paused:
        out.set(ConditionType.ON_TIME, False, Reason.PAUSED, f"{by}, and warming is paused (warm.paused)")
    elif progress.homeless:
        sentence = f"{by}, and no node is left for {progress.homeless} of its replicas: add nodes, or ask for fewer"
        out.set(ConditionType.ON_TIME, False, Reason.DEADLINE_AT_RISK, sentence)
    else:
        _by_rate(out, find(old, ConditionType.ON_TIME), by, progress, due - now)


def _by_rate(out: ConditionSet, before: Condition | None, by: str, progress: WarmOutlook, left: float) -> None:
    takes = progress.eta if progress.eta is not None else progress.forecast
    if takes is None:
        out.set(ConditionType.ON_TIME, "Unknown", Reason.RATE_UNKNOWN, f"{by}; no rate has been measured yet")
        return
    rate = "at the measured rate" if progress.eta is not None else "by the forecast"
    late = before is not None and before.reason == Reason.DEADLINE_AT_RISK
    if takes <= left * (_CALM if late else 1.0):
        out.set(ConditionType.ON_TIME, True, Reason.ON_TIME, f"{by}; {rate} it takes {format_duration(takes)} more")
    else:
        advice = "give it a higher warm.priority, raise its origin's cap, or begin earlier"
        sentence = f"{by}, and {rate} it takes {format_duration(takes)} more, which is too long: {advice}"
        out.set(ConditionType.ON_TIME, False, Reason.DEADLINE_AT_RISK, sentence)
