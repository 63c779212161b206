"""What workloads read in windows of time, from what they have opened so far: what changes are judged by. Pure."""

from collections.abc import Iterable, Mapping
from statistics import fmean

from stoker_api.node_workload import NodeWorkload
from stoker_tuning.learning.windows import FigureWindow

# Seconds: long enough for a figure of a workload that reads a few files a second, and for a stall to be measured.
WINDOW_SECONDS = 10.0


class ReadWindows:
    """The windows of a node's workloads. All seconds are of the monotonic clock."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._opened: Mapping[str, float] = {}

    @property
    def since(self) -> float | None:
        """When the window that is open now began; None: there is none."""
        return self._since

    def close(
        self, rows: Iterable[NodeWorkload], opened: Mapping[str, float], on_trial: frozenset[str], now: float
    ) -> dict[str, FigureWindow]:
        """Return the window that has ended, by UID of the pod; nothing while it is too early for that.

        ``opened``: files that each pod has opened so far. ``on_trial``: pods for which something is being changed; the
        others that read the same Dataset are their control.
        """
        if self._since is not None and now - self._since < WINDOW_SECONDS:
            return {}
        seconds, before = now - (self._since or now), self._opened
        self._since, self._opened = now, dict(opened)
        if seconds <= 0:
            return {}
        rates = {uid: max(0.0, count - before[uid]) / seconds for uid, count in opened.items() if uid in before}
        known = {row.uid: row for row in rows if row.uid in rates}
        return {uid: _window(row, rates, known.values(), on_trial) for uid, row in known.items()}


def _window(
    row: NodeWorkload, rates: Mapping[str, float], rows: Iterable[NodeWorkload], on_trial: frozenset[str]
) -> FigureWindow:
    others = [
        rates[other.uid]
        for other in rows
        if other.uid != row.uid and other.uid not in on_trial and set(other.datasets) & set(row.datasets)
    ]
    stall = None if row.stall_percent is None else row.stall_percent / 100
    return FigureWindow(rates[row.uid], stall, fmean(others) if others else None)


def together(windows: Iterable[FigureWindow]) -> FigureWindow:
    """Return the window of all who read one Dataset: their sum, and their mean stall."""
    each = tuple(windows)
    stalls = [window.stall for window in each if window.stall is not None]
    return FigureWindow(sum(window.items_per_second for window in each), fmean(stalls) if stalls else None)
