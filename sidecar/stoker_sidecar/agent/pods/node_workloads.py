"""The node's workload rows: reports and observations of each pod in one row, at a bounded pace."""

import time
from collections.abc import Callable, Iterable, Mapping

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.times import format_time
from stoker_sidecar.agent.core.workload_rows import PhasePace, due_in, fair_share, merged, phases
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.frameworks.pod_hints import NO_HINTS, FrameworkSource, PodHints
from stoker_tuning.learning.changes import ChangeOutcome
from stoker_tuning.rules.spec import KnobValue

_MOST_TEXT = 256
_LEAST, _MOST = -100, 1000


def tuned_row(row: NodeWorkload, outcome: ChangeOutcome) -> NodeWorkload:
    """Return the row with the change, its result, and its gain."""
    gain = max(_LEAST, min(_MOST, round(100 * outcome.gain)))
    return row.model_copy(update={"tuned": told_change(outcome), "gain_percent": gain})


def told_change(outcome: ChangeOutcome) -> str:
    """Return a change and its result, for people."""
    change = outcome.change
    back = ", taken back" if outcome.taken_back else ""
    told = f"{change.knob} {_plain(change.old)} to {_plain(change.new)}: {outcome.verdict}{back} ({change.origin})"
    return told[:_MOST_TEXT]


def _plain(value: KnobValue) -> KnobValue:
    """Return a whole number without decimals: the history of earlier releases has floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def hints_of_pods(mounted: Iterable[Published], reporting: Iterable[ReportVolume]) -> dict[str, PodHints]:
    """Return the hints in each pod's volumes by its UID, from its first volume with hints."""
    told = [(row.request.pod_uid, row.request.hints) for row in mounted]
    told += [(volume.pod_uid, volume.hints) for volume in reporting]
    return {uid: hints for uid, hints in reversed(told) if hints != NO_HINTS}


def hinted(row: NodeWorkload, hints: Mapping[str, PodHints]) -> NodeWorkload:
    """Return a pod's row with its spec's hints, where its report and its processes give no value."""
    known = hints.get(row.uid)
    if known is None:
        return row
    values: dict[str, object] = {"gpus": known.gpus or None, "job": known.job}
    if not row.framework:
        values |= {"framework": known.framework, "framework_source": known.framework_source}
    if row.batch_size is None:
        values["batch_size"] = known.batch_size or None
    return row.model_copy(update=values)


def by_files(row: NodeWorkload, frameworks: Mapping[str, str]) -> NodeWorkload:
    """Return a pod's row with the framework of its files, by UID, if no other source gives one."""
    framework = frameworks.get(row.uid, "")
    if row.framework or not framework:
        return row
    return row.model_copy(update={"framework": framework, "framework_source": FrameworkSource.FILES})


# Seconds between marking a change and checking its result.
LOOK_AGAIN_SECONDS = 1.0

WorkloadRows = Callable[[], Iterable[NodeWorkload]]


class NodeWorkloads:
    """The rows of ``NodeCache.status.workloads``, and the time of their next change.

    ``reported`` and ``observed`` return the current rows. ``news`` is marked when they may have changed; it is separate
    from the agent's ``changes``, because most news does not concern the whole agent. ``clock`` counts seconds.
    ``tuned`` adds a row's tuning changes. ``hints`` has the hints of pods' specs, and ``files`` the framework of their
    files, by UID. ``fresh`` returns the observation at this moment; it costs more than ``observed``. ``wall`` counts
    seconds since the epoch.
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
        fresh: WorkloadRows | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._reported = reported
        self._observed = observed
        self._news = news
        self._changes = changes
        self._clock = clock
        self._tuned = tuned
        self._hints = hints
        self._files = files
        self._fresh = fresh or observed
        self._wall = wall
        self._pace = PhasePace()
        self._shown: tuple[NodeWorkload, ...] = ()
        self._dated: tuple[NodeWorkload, ...] = ()  # the same rows, with the time of their figures
        self._shown_at = float("-inf")

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return the node's rows: new ones if they are due, else the previous ones."""
        rows, due = self._now()
        if due is not None and due <= 0:
            self._show(rows)
        return self._dated

    def _show(self, rows: tuple[NodeWorkload, ...]) -> None:
        now = self._clock()
        if phases(rows) != phases(self._shown):
            self._pace.spend(now)
        self._shown, self._shown_at = rows, now
        taken = format_time(self._wall())
        self._dated = tuple(row.model_copy(update={"figures_at": taken}) for row in rows)

    def known(self) -> tuple[NodeWorkload, ...]:
        """Return the current rows, due or not."""
        return self._now()[0]

    def everything(self) -> tuple[NodeWorkload, ...]:
        """Return the current rows of all pods, including those beyond the ten in the status."""
        return self._completed(merged(self._reported(), self._fresh()))

    def count(self) -> int:
        """Return the number of these rows."""
        return len(merged(self._reported(), self._observed()))

    def due_in(self) -> float | None:
        """Return the seconds until ``rows`` changes; None: not before there is news."""
        return self._now()[1]

    async def run(self) -> None:
        """Mark a change whenever new rows are due, until cancelled."""
        while True:
            token = self._news.token()
            due = self.due_in()
            if due is not None and due <= 0:
                self._changes.mark()
                due = LOOK_AGAIN_SECONDS
            await self._news.wait(token, due)

    def _now(self) -> tuple[tuple[NodeWorkload, ...], float | None]:
        rows = self._completed(fair_share(merged(self._reported(), self._observed())))
        now = self._clock()
        return rows, due_in(self._shown, rows, now - self._shown_at, self._pace.due_in(now))

    def _completed(self, rows: Iterable[NodeWorkload]) -> tuple[NodeWorkload, ...]:
        hints, files = self._hints(), self._files()
        return tuple(self._tuned(by_files(hinted(row, hints), files)) for row in rows)
