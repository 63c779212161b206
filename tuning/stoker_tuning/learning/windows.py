"""Windows of equal length, with the rate of a workload."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from stoker_tuning.learning.changes import WindowFigures


@dataclass(frozen=True, slots=True)
class FigureWindow:
    """The rate of a workload in one window, in which a knob did not change.

    ``stall``: share of its time, or None without a measurement. ``control``: items per second of a workload without a
    change in the same window, or None.
    """

    items_per_second: float
    stall: float | None = None
    control: float | None = None


def figures(windows: Sequence[FigureWindow]) -> WindowFigures:
    """Return the means over windows."""
    stalls = [window.stall for window in windows if window.stall is not None]
    rate = fmean(window.items_per_second for window in windows) if windows else 0.0
    return WindowFigures(len(windows), rate, fmean(stalls) if stalls else None)


def control_figures(windows: Sequence[FigureWindow]) -> WindowFigures | None:
    """Return the means of the control; None if any window has no control."""
    controls = [window.control for window in windows if window.control is not None]
    return WindowFigures(len(controls), fmean(controls)) if controls and len(controls) == len(windows) else None
