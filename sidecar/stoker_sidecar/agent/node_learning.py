"""What a node learns of its workloads: what came of changes, which phase comes next; and the history of both."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from stoker_api.node_workload import NodeWorkload
from stoker_sidecar.agent.core.history_rows import HistoryKind, HistoryRow, change_row, outcome_of
from stoker_sidecar.agent.core.read_windows import ReadWindows, together
from stoker_sidecar.agent.core.seen_phases import SeenPhases
from stoker_sidecar.agent.core.tuned_rows import tuned_row
from stoker_sidecar.agent.tuning_history import TuningHistory
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.learning.changes import ChangeOutcome
from stoker_tuning.learning.learner import Learner, TrialKey

log = logging.getLogger(__name__)
# Seconds between two looks at phases, when nothing is told, and between two writes of the history.
LOOK_SECONDS = 10.0
# Rows that wait for the disk; of more, the oldest are lost. Rows that are learned from at the start.
MOST_WAITING, MOST_LEARNED = 1000, 2000
_MOST_LAST = 64


class NodeLearning:
    """The learning of one node.

    Whoever turns a knob asks ``learner`` to ``begin`` with the change, and has in force what ``value`` says; ``turns``
    is marked after each window, when that may be something else. It is None for a change that is on trial no more:
    ``decisions`` has what it came to, or its workload is gone.

    ``counts``: whether what is on trial had been in force as ``value`` says since the time at which a window began, on
    the monotonic clock; a window of which that is not so is left out.

    ``news`` is marked when workloads may do something else. ``wall`` counts seconds since the epoch, ``clock`` is the
    monotonic one.
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
        self.counts: Callable[[TrialKey, float], bool] = lambda key, began: True
        self.turns = Changes()
        self.decisions: deque[ChangeOutcome] = deque(maxlen=_MOST_LAST)  # the last ones
        self._waiting: deque[HistoryRow] = deque(maxlen=MOST_WAITING)
        self._last: OrderedDict[str, ChangeOutcome] = OrderedDict()

    async def run(self, rows: Callable[[], Iterable[NodeWorkload]], opened: Callable[[], Mapping[str, float]]) -> None:
        """Learn from the history, then keep it, until cancelled; what waits then is written still.

        ``rows`` gives what is known of workloads now, ``opened`` the files that each has opened so far, by its UID.
        """
        try:
            await self.remember()
            while True:
                token = self._news.token()
                self.look(tuple(rows()), opened())
                await self.write()
                await self._news.wait(token, LOOK_SECONDS)
        finally:
            await asyncio.shield(self.write())

    def decided(self, outcome: ChangeOutcome) -> None:
        """Take what a change came to, to be kept and shown."""
        self.decisions.append(outcome)
        self.changes[outcome.change.knob, outcome.verdict.value] += 1
        self._note(outcome)
        self._waiting.append(change_row(outcome))

    def look(self, rows: Sequence[NodeWorkload], opened: Mapping[str, float]) -> None:
        """Note which phases have changed and whether that was foreseen, and judge changes by the window that ended."""
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
            if seen and self.counts(key, began):
                window = seen[0] if key.workload is not None else together(seen)
                for outcome in self.learner.saw(*key, window, self._wall()):
                    self.decided(outcome)
        if windows or gone:
            self.turns.mark()

    def shown(self, row: NodeWorkload) -> NodeWorkload:
        """Return a workload's row with the last change for it, or for what it reads, that came to something."""
        known = [self._last[key] for key in (row.uid, *row.datasets) if key in self._last]
        return tuned_row(row, max(known, key=lambda outcome: outcome.at)) if known else row

    async def write(self) -> None:
        """Write what waits, in a thread."""
        if not self._waiting:
            return
        rows = tuple(self._waiting)
        self._waiting.clear()
        await in_thread(self.history.add, rows)

    async def remember(self) -> None:
        """Learn from the changes that are in the history: once, at first."""
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
