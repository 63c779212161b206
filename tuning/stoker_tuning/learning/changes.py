"""Changes of knobs and their outcomes, as values."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_tuning.rules.spec import KnobValue
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one knob.

    ``id``: unique on the node. ``at``: seconds since the epoch. ``dataset``: NAMESPACE/NAME, or the source of
    ``stoker mount``. ``version``: its digest. ``workload``: the UID of a pod, or None for all readers of the Dataset.
    ``pod``: NAMESPACE/NAME of that pod. ``knob``: a name of stoker_tuning.recommend.knobs. ``origin``: the id of the
    rule. Histories of earlier releases also have ``Adaptive``.
    """

    id: str
    at: float
    dataset: str
    version: str
    workload: str | None
    phase: TrainingPhase
    pattern: AccessPattern
    knob: str
    old: KnobValue
    new: KnobValue
    origin: str
    pod: str = ""


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """Means of a workload over some windows: items per second, and stall, a share of its time.

    ``stall`` is None without a measurement.
    """

    windows: int
    items_per_second: float
    stall: float | None = None


class ChangeVerdict(StrEnum):
    """The verdict on a change."""

    HELPED = "helped"
    NEUTRAL = "neutral"
    HURT = "hurt"


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """The outcome of a change. ``at``: seconds since the epoch.

    ``before``, ``after``: the workload with the old value and with the new one. ``control_before`` and
    ``control_after``: another workload without a change in the same windows, or None.
    ``gain``: of items per second, as a share (0.25: a quarter more). ``low``, ``high``: its confidence interval.
    ``taken_back``: the old value applies again.
    """

    change: Change
    at: float
    verdict: ChangeVerdict
    gain: float
    low: float
    high: float
    before: WindowFigures
    after: WindowFigures
    control_before: WindowFigures | None = None
    control_after: WindowFigures | None = None
    taken_back: bool = False
