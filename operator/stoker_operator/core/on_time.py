"""Whether a Dataset is warm by its deadline, by the rates that its nodes measure."""

from collections.abc import Iterable
from dataclasses import dataclass

from stoker_api.dataset import Dataset
from stoker_api.meta import Condition, format_duration
from stoker_api.names import ConditionType, Reason
from stoker_api.times import format_time, parse_time
from stoker_operator.core.conditions import ConditionSet, find

# Of the time that is left: who was late has to be early by so much before it counts as on time again.
_CALM = 0.9


@dataclass(frozen=True, slots=True)
class WarmOutlook:
    """How far a warm-up is. ``eta``: seconds that are left at the measured rates; None: there are none yet.

    ``forecast``: seconds that it should take, where nothing moves yet; None: not known either. ``homeless``: replicas
    that no node is there for.
    """

    done: bool
    paused: bool
    eta: float | None = None
    forecast: float | None = None
    homeless: int = 0


def due_time(dataset: Dataset, now: float) -> float | None:
    """Return by when it is to be warm, in seconds since the epoch; None: no deadline.

    A time of day that was missed stays until it is warm; after that the next one counts. One that is later than that
    was worked out while a clock was ahead.
    """
    if (deadline := dataset.spec.warm.deadline) is None:
        return None
    last, status = parse_time(dataset.status.warm_by), dataset.status
    warm = find(status.conditions, ConditionType.WARM)
    same = status.observed_generation == dataset.metadata.generation
    due = deadline.due(now)
    missed = deadline.daily is not None and same and not (warm and warm.status == "True")
    return last if missed and due is not None and 0.0 < last < due else due


def set_on_time(
    out: ConditionSet, old: Iterable[Condition], due: float | None, progress: WarmOutlook, now: float
) -> None:
    """Say whether it is warm in time; nothing where it has no deadline."""
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
