"""What the node says of its pods: their own word and what is seen of them in one row each, at a bounded pace."""

import time
from collections.abc import Callable, Iterable, Mapping

from stoker_api.node_workload import NodeWorkload
from stoker_sidecar.agent.core.hinted_rows import by_files, hinted
from stoker_sidecar.agent.core.workload_rows import due_in, fair_share, merged
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.frameworks.pod_hints import PodHints

# After a change was marked, until what it led to is looked at.
LOOK_AGAIN_SECONDS = 1.0

WorkloadRows = Callable[[], Iterable[NodeWorkload]]


class NodeWorkloads:
    """The rows of ``NodeCache.status.workloads``, and when they change.

    ``reported`` and ``observed`` give what is known now; ``news`` is marked when that may have changed: it is not the
    agent's ``changes``, as most of it is not worth that the whole agent looks about. ``clock`` counts seconds.
    ``tuned`` adds to a row what was changed for it. ``hints``: what the specs of pods hint at, by UID. ``files``: which
    framework the files that they read are of, by UID.
    """

    def __init__(
        self,
        reported: WorkloadRows,
        observed: WorkloadRows,
        news: Changes,
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
        tuned: Callable[[NodeWorkload], NodeWorkload] = lambda row: row,
        hints: Callable[[], Mapping[str, PodHints]] = dict,
        files: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._reported = reported
        self._observed = observed
        self._news = news
        self._changes = changes
        self._clock = clock
        self._tuned = tuned
        self._hints = hints
        self._files = files
        self._shown: tuple[NodeWorkload, ...] = ()
        self._shown_at = float("-inf")

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return what the node says: what is new, or what it said before while it is too early for that."""
        rows, due = self._now()
        if due is not None and due <= 0:
            self._shown, self._shown_at = rows, self._clock()
        return self._shown

    def known(self) -> tuple[NodeWorkload, ...]:
        """Return what is known now, whether or not it is time to say it."""
        return self._now()[0]

    def everything(self) -> tuple[NodeWorkload, ...]:
        """Return what is known now of all pods, also of those beyond the ten that the node tells of."""
        return self._completed(merged(self._reported(), self._observed()))

    def count(self) -> int:
        """Return how many these are."""
        return len(merged(self._reported(), self._observed()))

    def due_in(self) -> float | None:
        """Return the seconds until ``rows`` will say something else; None: not before there is news."""
        return self._now()[1]

    async def run(self) -> None:
        """Mark a change whenever there is something to say and it is time for it, until cancelled."""
        while True:
            token = self._news.token()
            due = self.due_in()
            if due is not None and due <= 0:
                self._changes.mark()
                due = LOOK_AGAIN_SECONDS
            await self._news.wait(token, due)

    def _now(self) -> tuple[tuple[NodeWorkload, ...], float | None]:
        rows = self._completed(fair_share(merged(self._reported(), self._observed())))
        return rows, due_in(self._shown, rows, self._clock() - self._shown_at)

    def _completed(self, rows: Iterable[NodeWorkload]) -> tuple[NodeWorkload, ...]:
        hints, files = self._hints(), self._files()
        return tuple(self._tuned(by_files(hinted(row, hints), files)) for row in rows)
