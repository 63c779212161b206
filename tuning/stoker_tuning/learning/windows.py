"""What is compared: windows of equal length, each with what a workload did in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from stoker_tuning.learning.changes import WindowFigures


@dataclass(frozen=True, slots=True)
class FigureWindow:
    """What a workload did in one window, while a knob stood where it did.

    ``stall``: share of its time; None: not measured. ``control``: items a second, in the same window, of a workload
    for which nothing was changed; None: there is none.
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
    """Return the means of the control; None where it is missing in any window."""
    controls = [window.control for window in windows if window.control is not None]
    return WindowFigures(len(controls), fmean(controls)) if controls and len(controls) == len(windows) else None
