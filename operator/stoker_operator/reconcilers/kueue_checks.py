"""Kueue's AdmissionChecks for Stoker: a level-triggered pass that answers whether a Workload's data is warm."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.errors import Conflict, NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import ADMISSION_CHECKS, WORKLOADS
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.kueue.check_answers import CheckAnswer, active_condition, decide_answer, status_patch
from stoker_operator.core.kueue.kueue_objects import (
    CHECK_MANAGER,
    AdmissionCheckView,
    CheckEntry,
    QueuedWorkload,
    WarmTerms,
    parse_admission_check,
    parse_workload,
)
from stoker_operator.core.kueue.warm_check import Outlook, StartVerdict, judge
from stoker_operator.core.kueue.warm_supply import WarmSupply
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.writes.write_budget import WritePriority
from stoker_operator.writes.writer import Writer

LOOK_EVERY = 2.0  # seconds between two checks of nodes' reports, while a Workload waits
LOOKS_A_SECOND = 200.0  # Workloads checked per second: with more Workloads the checks are rarer
MESSAGE_EVERY = 15.0  # seconds between two messages that report only progress
MESSAGES_A_SECOND = 5.0  # of these, for all Workloads together
_WANTED_BY = "queues"
Checks = Mapping[str, AdmissionCheckView]


@dataclass(frozen=True)
class _ToldWorkload:
    """The answers to write to one Workload; ``ours``: its checks that Stoker answers."""

    workload: QueuedWorkload
    ours: Sequence[CheckEntry]
    answers: Sequence[CheckAnswer]


@dataclass
class _Outcome:
    """The result of a pass: the answers to write, and the data that Workloads want."""

    told: list[_ToldWorkload] = field(default_factory=list)
    wanted: dict[str, frozenset[str]] = field(default_factory=dict)
    versions: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)

    def want(self, verdict: StartVerdict) -> None:
        """Add the nodes where a Workload wants data."""
        for key, nodes in verdict.wanted.items():
            self.wanted[key] = self.wanted.get(key, frozenset()) | nodes
        for key, named in verdict.versions.items():
            known = self.versions.setdefault(key, {})
            known.update({node: known.get(node, frozenset()) | versions for node, versions in named.items()})


class KueueChecks:
    """Answers Kueue's AdmissionChecks, pass by pass; ``clock`` returns seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._clock: Final = clock
        self._warmth: Final = WarmthIndex()
        self._stale: dict[str, None] = dict.fromkeys(state.node_caches.snapshot())  # changed NodeCaches
        self._written_at: dict[str, float] = {}
        self.work: Final = KeyedWork("kueue", clock, events, budget=writer.budget)
        state.node_caches.listen(self._note_cache)

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until time alone requires the next. Does not wait for writes."""
        now, checks = self._clock(), self._state.admission_checks.snapshot()
        waiting = self._waiting(checks)
        outcome = self._judge_all(waiting, checks, now) if waiting else _Outcome()
        self._state.set_wanted(outcome.wanted, outcome.versions, _WANTED_BY)
        self._written_at = {key: at for key, at in self._written_at.items() if key in waiting}
        due = self.work.take((*self._conditions(checks, now), *self._answers(outcome.told, len(waiting), now)))
        look = max(LOOK_EVERY, len(waiting) / LOOKS_A_SECOND) if waiting else None
        again = [seconds for seconds in (due, look) if seconds is not None]
        return min(again, default=None)

    def _note_cache(self, old: NodeCache | None, new: NodeCache | None) -> None:
        one = new or old
        if one is not None:
            self._stale[one.metadata.name] = None

    def _waiting(self, checks: Checks) -> Mapping[str, QueuedWorkload]:
        if not checks:
            return {}
        workloads = self._state.queued_workloads.snapshot()
        return {key: one for key, one in workloads.items() if any(row.name in checks for row in one.checks)}

    def _judge_all(self, waiting: Mapping[str, QueuedWorkload], checks: Checks, now: float) -> _Outcome:
        stale, self._stale = self._stale, {}
        for name in stale:
            self._warmth.put(name, self._state.node_caches.get(name))
        view, outcome = self._state.snapshot(), _Outcome()
        supply = WarmSupply(view, self._warmth)
        for workload in waiting.values():
            ours = [row for row in workload.checks if row.name in checks]
            answers: list[CheckAnswer] = []
            for at, row in enumerate(ours):
                terms = checks[row.name].terms
                if isinstance(terms, Refusal):
                    continue  # the check's condition says so, and until it is active Kueue admits no Workload with it
                verdict = _judge(workload, terms, view, supply, now)
                outcome.want(verdict)
                answer = decide_answer(workload, row, verdict, now, annotates=at == 0)
                answers += [] if answer is None else [answer]
            outcome.told += [_ToldWorkload(workload, ours, answers)] if answers else []
        return outcome

    def _conditions(self, checks: Checks, now: float) -> Iterator[KeyedAction]:
        for name, check in checks.items():
            condition = active_condition(check, now)
            if condition is not None:
                act = partial(self._write_condition, check, condition)
                about = f"condition of AdmissionCheck {name}"
                yield KeyedAction(about, "condition", name, act, check.generation, priority=WritePriority.STATUS)

    def _answers(self, told: Sequence[_ToldWorkload], waiting: int, now: float) -> Iterator[KeyedAction]:
        pause = max(MESSAGE_EVERY, waiting / MESSAGES_A_SECOND)
        for one in told:
            workload = one.workload
            urgent = any(answer.urgent for answer in one.answers)
            if not urgent and now < self._written_at.get(workload.key, 0.0) + pause:
                continue
            yield KeyedAction(
                f"admission check of Workload {workload.key}",
                "check",
                workload.namespace,
                partial(self._write_answer, one),
                workload.resource_version,
                ObjectRef(WORKLOADS.api_version, WORKLOADS.kind, workload.name, workload.namespace, workload.uid),
                WritePriority.START if urgent else WritePriority.STATUS,
            )

    async def _write_condition(self, check: AdmissionCheckView, condition: Mapping[str, Any]) -> None:
        meta = {"name": check.name, "uid": check.uid}
        body = {"metadata": meta, "status": {"conditions": [dict(condition)]}}
        try:
            written = await self._writer.apply_status(ADMISSION_CHECKS, body, CHECK_MANAGER)
        except (NotFound, Conflict):
            return  # deleted, perhaps created again: the watch reports it
        self._state.admission_checks.put(check.name, parse_admission_check(written))

    async def _write_answer(self, told: _ToldWorkload) -> None:
        workload, now = told.workload, self._clock()
        body = status_patch(workload, told.answers, told.ours, now)
        try:
            written = await self._writer.apply_status(WORKLOADS, body, CHECK_MANAGER)
        except (NotFound, Conflict):
            return  # Kueue was faster: the watch reports it, and the next pass judges again
        self._written_at[workload.key] = now
        self._state.queued_workloads.put(workload.key, parse_workload(written))


def _judge(
    workload: QueuedWorkload, terms: WarmTerms, view: ClusterView, supply: WarmSupply, now: float
) -> StartVerdict:
    try:
        return judge(workload, terms, view, supply, now)
    except Exception as error:  # noqa: BLE001 -- the boundary of a Workload: it must not stop other Workloads
        return StartVerdict(Outlook.WAIT, f"internal error, please report it: {error!r}")
