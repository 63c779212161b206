"""Changes of knobs and what came of them, as values: who turns a knob makes a Change, learning says what it came to."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_tuning.rules.spec import KnobValue
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase


@dataclass(frozen=True, slots=True)
class Change:
    """One knob that was turned.

    ``id``: of its own on the node. ``at``: seconds since the epoch. ``dataset``: as people name it, NAMESPACE/NAME, or
    the folder of ``stoker mount``. ``version``: its digest. ``workload``: the pod's UID; None: the change is for all
    who read the Dataset. ``pod``: NAMESPACE/NAME of that pod. ``knob``: of stoker_tuning.recommend.knobs. ``origin``:
    the id of the rule that asked for it, or what else did: ``phase Training``, ``learning``.
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
    """What a workload did over some windows: their number, items a second, and its stall, a share of its time.

    ``stall`` is None where nothing on the node measures it.
    """

    windows: int
    items_per_second: float
    stall: float | None = None


class ChangeVerdict(StrEnum):
    """What came of a change."""

    HELPED = "helped"
    NEUTRAL = "neutral"
    HURT = "hurt"


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What came of a change, told at ``at``, in seconds since the epoch.

    ``before``, ``after``: the workload under the old value and under the new one. ``control_before`` and
    ``control_after``: another workload in the same windows, which was not changed; None: there was none.
    ``gain``: of items a second, as a share (0.25: a quarter more); ``low``, ``high``: its confidence interval.
    ``taken_back``: whether the old value is in force again.
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
