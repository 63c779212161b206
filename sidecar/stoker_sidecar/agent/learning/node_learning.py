"""Learning of a node: outcomes of tuning changes, predictions of phases, and the history of both."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.workload_totals import PHASES
from stoker_sidecar.agent.learning.tuning_history import (
    HistoryKind,
    HistoryRow,
    TuningHistory,
    change_row,
    outcome_of,
    phase_row,
    prediction_row,
)
from stoker_sidecar.agent.pods.node_workloads import tuned_row
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.learning.changes import ChangeOutcome
from stoker_tuning.learning.experiment import FigureWindow
from stoker_tuning.learning.foresight import Foresight
from stoker_tuning.learning.learner import Learner, TrialKey
from stoker_tuning.vocabulary import Split, TrainingPhase

log = logging.getLogger(__name__)

_SPLITS = frozenset(Split)
# Least seconds between two rows of one workload, so that no pod fills the history alone.
_PACE = 10.0


@dataclass
class _Followed:
    phase: str = ""
    shown: str = ""  # the phase of its last row in the history
    told: float = float("-inf")
    foresight: Foresight = field(default_factory=Foresight)


class SeenPhases:
    """The phases of workloads with a row, ten at most. A workload without a row is forgotten.

    ``changes``: how often each phase began; ``hits``: verified predictions, by whether they were right.
    """

    def __init__(self) -> None:
        self.changes: Counter[str] = Counter()
        self.hits: Counter[bool] = Counter()
        self._followed: dict[str, _Followed] = {}

    def saw(self, rows: Iterable[NodeWorkload], at: float) -> list[HistoryRow]:
        """Take the current rows, at ``at`` seconds since the epoch. Return new rows for the history."""
        known = {row.uid: row for row in rows}
        self._followed = {uid: self._followed.get(uid) or _Followed() for uid in known}
        return [entry for uid, row in known.items() for entry in self._told(self._followed[uid], row, at)]

    def _told(self, one: _Followed, row: NodeWorkload, at: float) -> Iterator[HistoryRow]:
        if row.phase not in PHASES:
            return
        foresight, before = one.foresight, one.phase
        foresight.splits = frozenset(Split(name) for name in row.splits if name in _SPLITS)
        items = float(row.reads or row.step or 0)
        dataset = row.datasets[0] if row.datasets else ""
        predicted = foresight.next()
        hit = foresight.saw(TrainingPhase(row.phase), items)
        one.phase = row.phase
        changed = before != row.phase
        if changed:
            self.changes[row.phase] += 1
            self.hits.update(() if hit is None else (hit,))
        if row.phase == one.shown or at - one.told < _PACE:  # a phase that lasts gets its row later
            return
        shown, one.shown, one.told = one.shown, row.phase, at
        yield phase_row(at, dataset, row.pod, shown, row.phase, items)
        if changed and hit is not None and predicted is not None:
            yield prediction_row(at, dataset, row.pod, predicted, row.phase, hit=hit)


# Seconds; enough for workloads with a few files per second, and for a stall.
WINDOW_SECONDS = 10.0


class ReadWindows:
    """The windows of a node's workloads. All seconds are of the monotonic clock."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._opened: Mapping[str, float] = {}

    @property
    def since(self) -> float | None:
        """Start of the open window. None if no window is open."""
        return self._since

    def close(
        self, rows: Iterable[NodeWorkload], opened: Mapping[str, float], on_trial: frozenset[str], now: float
    ) -> dict[str, FigureWindow]:
        """Return the window that ended, by UID of the pod. Empty before its end.

        ``opened``: number of files that each pod opened. ``on_trial``: pods with a change on trial. Other readers of
        the same Dataset are their control.
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
    """Return the window of all readers of a Dataset: the sum of their rates, and their mean stall."""
    each = tuple(windows)
    stalls = [window.stall for window in each if window.stall is not None]
    return FigureWindow(sum(window.items_per_second for window in each), fmean(stalls) if stalls else None)


# Longest time between two looks at phases, and between two writes of the history, in seconds.
LOOK_SECONDS = 10.0
# Most rows that wait for the disk (the oldest are dropped), and most rows of the history to learn from at the start.
MOST_WAITING, MOST_LEARNED = 1000, 2000
_MOST_LAST = 64

# Returns True if the trial's value was in force since the start of a window, in monotonic seconds.
Counts = Callable[[TrialKey, float], bool]


def _every_window(_key: TrialKey, _began: float) -> bool:
    return True


class NodeLearning:
    """The learning of one node.

    To try a change, call ``learner.begin`` and apply the result of ``learner.value``. ``turns`` is marked after each
    window, when the value may have changed. After the trial, the value becomes None: ``decisions`` then has its
    outcome, unless its workload is gone.

    ``news`` is marked when workloads may have changed. ``wall``: seconds since the epoch; ``clock``: monotonic seconds.
    """

    def __init__(
        self,
        history: TuningHistory,
        news: Changes,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.learner = Learner()
        self.history = history
        self.phases = SeenPhases()
        self.changes: Counter[tuple[str, str]] = Counter()  # by knob and verdict, since the agent started
        self._news = news
        self._wall = wall
        self._clock = clock
        self._windows = ReadWindows()
        self.turns = Changes()
        self.decisions: deque[ChangeOutcome] = deque(maxlen=_MOST_LAST)  # the last ones
        self._waiting: deque[HistoryRow] = deque(maxlen=MOST_WAITING)
        self._last: OrderedDict[str, ChangeOutcome] = OrderedDict()

    async def run(
        self,
        rows: Callable[[], Iterable[NodeWorkload]],
        opened: Callable[[], Mapping[str, float]],
        counts: Counts = _every_window,
    ) -> None:
        """Learn from the history, then update it until cancelled. On cancellation, write the waiting rows.

        ``rows`` returns the current workload rows, ``opened`` the number of files that each pod has opened, by UID.
        ``counts``: see ``look``.
        """
        try:
            await self.remember()
            while True:
                token = self._news.token()
                self.look(tuple(rows()), opened(), counts)
                await self.write()
                await self._news.wait(token, LOOK_SECONDS)
        finally:
            await asyncio.shield(self.write())

    def decided(self, outcome: ChangeOutcome) -> None:
        """Take the outcome of a change, for the history and the status."""
        self.decisions.append(outcome)
        self.changes[outcome.change.knob, outcome.verdict.value] += 1
        self._note(outcome)
        self._waiting.append(change_row(outcome))

    def look(self, rows: Sequence[NodeWorkload], opened: Mapping[str, float], counts: Counts = _every_window) -> None:
        """Record phase changes and their predictions, and judge changes on trial by the last window.

        Windows for which ``counts`` returns False are ignored.
        """
        self._waiting.extend(self.phases.saw(rows, self._wall()))
        trials = self.learner.trials
        uids = frozenset(key.workload for key in trials if key.workload is not None)
        began = self._windows.since or 0.0
        windows = self._windows.close(rows, opened, uids, self._clock())
        gone = False
        for key in trials:
            readers = [row.uid for row in rows if key.dataset in row.datasets and key.workload in (None, row.uid)]
            if not readers:
                self.learner.forget(*key)
                gone = True
            seen = [windows[uid] for uid in readers if uid in windows]
            if seen and counts(key, began):
                window = seen[0] if key.workload is not None else together(seen)
                outcome = self.learner.saw(*key, window, self._wall())
                if outcome is not None:
                    self.decided(outcome)
        if windows or gone:
            self.turns.mark()

    def shown(self, row: NodeWorkload) -> NodeWorkload:
        """Return a workload's row with the last outcome for it or for one of its Datasets."""
        known = [self._last[key] for key in (row.uid, *row.datasets) if key in self._last]
        return tuned_row(row, max(known, key=lambda outcome: outcome.at)) if known else row

    async def write(self) -> None:
        """Write the waiting rows, in a thread."""
        if not self._waiting:
            return
        rows = tuple(self._waiting)
        self._waiting.clear()
        await in_thread(self.history.add, rows)

    async def remember(self) -> None:
        """Learn from the changes in the history. Called once, at the start."""
        rows = await in_thread(self.history.rows, kind=HistoryKind.CHANGE, most=MOST_LEARNED)
        outcomes = [outcome for row in reversed(rows) if (outcome := outcome_of(row)) is not None]
        for outcome in outcomes:
            self.learner.learn(outcome)
            self._note(outcome)
        if outcomes:
            log.info("learned from the %d changes that are in the history", len(outcomes))
            self.turns.mark()

    def _note(self, outcome: ChangeOutcome) -> None:
        key = outcome.change.workload or outcome.change.dataset
        self._last[key] = outcome
        self._last.move_to_end(key)
        if len(self._last) > _MOST_LAST:
            self._last.popitem(last=False)
