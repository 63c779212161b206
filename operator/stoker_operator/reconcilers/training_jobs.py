"""TrainingJobs: a level-triggered pass that keeps Service, Job and status in step."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.jobs.trainingjob import TrainingJob, TrainingJobStatus
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import parse_time
from stoker_kube.errors import Conflict, KubeError, NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import TRAINING_JOBS
from stoker_operator import metrics
from stoker_operator.core.fitting.pod_demand import Unmet
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.jobs.job_facts import PodsByJob, gather, own_job, settle_versions
from stoker_operator.core.jobs.job_goodput import goodput_due_in
from stoker_operator.core.jobs.job_status import expires_at, refused_status, roll_up_job, unwritten_status
from stoker_operator.core.jobs.job_transitions import is_reported, job_announcements
from stoker_operator.core.jobs.jobs import FINISHED, Step, missing_dataset, next_step
from stoker_operator.core.jobs.training_progress import phase_seconds, progress_due_in
from stoker_operator.core.views.cluster import ClusterView, PodView
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.job_children import JobChildren
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.turns import Act, KeyedAction
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)


class TrainingJobReconciler:
    """Keeps TrainingJobs in step with their children, pass by pass; ``clock`` returns seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._children: Final = JobChildren(writer, state, clock)
        # Updated from changes, and only while TrainingJobs exist, because nodes report often.
        self._warmth: Final = WarmthIndex()
        self._stale: dict[str, None] = dict.fromkeys(state.node_caches.snapshot())  # changed NodeCaches
        self._pods: Final = PodsByJob(state.pods.snapshot().values())
        self.work: Final = KeyedWork("trainingjobs", clock, events, budget=writer.budget)
        state.node_caches.listen(self._note_cache)
        state.pods.listen(self._pods.note)

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until time alone requires the next. Does not wait for writes."""
        if len(self._state.training_jobs):
            self._take_reports()
        view = self._state.snapshot()
        known = {one.metadata.uid for one in view.training_jobs.values()}
        self._children.forget(known | {one.metadata.uid for one in view.invalid_training_jobs.values()})
        return self.work.take((*self._actions(view), *self._refusals(view)))

    def _note_cache(self, old: NodeCache | None, new: NodeCache | None) -> None:
        one = new or old
        if one is not None:
            self._stale[one.metadata.name] = None

    def _take_reports(self) -> None:
        stale, self._stale = self._stale, {}
        for name in stale:
            self._warmth.put(name, self._state.node_caches.get(name))

    def _actions(self, view: ClusterView) -> Iterator[KeyedAction]:
        for training in view.training_jobs.values():
            act = partial(self._guarded, training, view, self._pods.of(training.key))
            yield _action(training.metadata, act)

    def _refusals(self, view: ClusterView) -> Iterator[KeyedAction]:
        """Write the refusal of invalid TrainingJobs; their children stay as they are."""
        for invalid in view.invalid_training_jobs.values():
            meta, old = invalid.metadata, invalid.status
            status = refused_status(old, meta.generation, Reason.INVALID_SPEC, invalid.sentence, self._clock())
            yield _action(meta, partial(self._write, meta, old, status))

    async def _guarded(self, training: TrainingJob, view: ClusterView, pods: list[PodView]) -> float | None:
        meta, old = training.metadata, training.status
        try:
            return await self._one(training, view, pods)
        except TimeoutError:
            raise
        except KubeError as error:
            if not error.temporary:
                with suppress(KubeError):
                    await self._write(meta, old, unwritten_status(old, meta.generation, error.message, self._clock()))
            raise
        except Exception as error:  # the boundary of an object: its status reports the error, and its key is retried
            sentence = f"internal error, please report it: {error!r}"
            status = refused_status(old, meta.generation, Reason.INTERNAL_ERROR, sentence, self._clock())
            await self._write(meta, old, status)
            raise

    async def _one(self, training: TrainingJob, view: ClusterView, pods: list[PodView]) -> float | None:
        now = self._clock()
        step = next_step(training, own_job(training, view))
        missing = missing_dataset(training, view) if step is Step.CREATE else None
        if step is Step.CREATE and missing is None:
            settled = await self._settle(training, view)
            missing, training = (settled, training) if isinstance(settled, Unmet) else (None, settled)
        if missing is None:
            await self._children.take(step, training, own_job(training, view))
        problem = missing or (self._children.problem(training) if step is Step.CREATE else None)
        if step is not Step.NOTHING:
            view = replace(view, jobs=self._state.jobs.snapshot())
        await self._children.follow_scheduling(training, pods)
        facts = gather(training, view, pods, self._warmth, problem)
        facts = replace(facts, phases_in=phase_seconds(len(view.training_jobs)))
        status = roll_up_job(training, facts, now)
        await self._write(training.metadata, training.status, status)
        ended = status.phase in FINISHED
        progress = None if ended else progress_due_in(status.training, facts.worker_rows, now, facts.phases_in)
        retry = self._children.retry_in(training) if problem else None
        ended_at = parse_time(status.completion_time) if status.completion_time else None
        gathered = goodput_due_in(status.goodput, ended_at, now)
        return _soonest(await self._expire(training, status, now), retry, progress, gathered)

    async def _settle(self, training: TrainingJob, view: ClusterView) -> TrainingJob | Unmet:
        """Pin the versions that the workers read, and write them before any worker exists. Raises KubeError."""
        rows = settle_versions(training, view)
        if isinstance(rows, Unmet) or rows == training.status.datasets:
            return rows if isinstance(rows, Unmet) else training
        status = training.status.model_copy(update={"datasets": rows})
        written = await self._writer.training_job_status(self._current(training.metadata), status)
        self._state.training_jobs.put(training.key, written)
        return training.model_copy(update={"status": status})

    def _current(self, meta: ObjectMeta) -> ObjectMeta:
        """Return the latest metadata of the same object that the mirror has."""
        there = self._state.training_jobs.get(f"{meta.namespace}/{meta.name}")
        return there.metadata if there is not None and there.metadata.uid == meta.uid else meta

    async def _write(self, meta: ObjectMeta, old: TrainingJobStatus, status: TrainingJobStatus) -> None:
        if status == old or meta.deletion_timestamp:
            return
        try:
            written = await self._writer.training_job_status(self._current(meta), status)
        except (NotFound, Conflict):
            return  # deleted or changed: the watch reports it
        self._state.training_jobs.put(f"{meta.namespace}/{meta.name}", written)
        if is_reported(old, status) and status.goodput is not None:
            metrics.note_goodput(status.goodput)
        for one in job_announcements(old, status):
            self._events.event(training_job_ref(meta), one.type, one.reason, one.message)
            if one.reason == Reason.ORDER_WRONG:
                metrics.ORDERS_WRONG.inc()

    async def _expire(self, training: TrainingJob, status: TrainingJobStatus, now: float) -> float | None:
        """Delete a finished TrainingJob past its time to live; else return the seconds until then."""
        end = expires_at(training, status)
        if end is None or training.metadata.deletion_timestamp:
            return None
        if end > now:
            return end - now
        meta = training.metadata
        log.info("TrainingJob %s: its time to live has passed", training.key)
        try:
            await self._writer.delete(TRAINING_JOBS, meta.name, meta.namespace, uid=meta.uid)
        except Conflict:
            log.debug("TrainingJob %s was replaced", training.key)
        return None


def _soonest(*seconds: float | None) -> float | None:
    return min((one for one in seconds if one is not None), default=None)


def _action(meta: ObjectMeta, act: Act) -> KeyedAction:
    key, mark = f"TrainingJob {meta.namespace}/{meta.name}", (meta.uid, meta.generation)
    return KeyedAction(key, "trainingjob", meta.namespace, act, mark, training_job_ref(meta))


def training_job_ref(meta: ObjectMeta) -> ObjectRef:
    """Return the object of events about a TrainingJob."""
    return ObjectRef(names.API_VERSION, TrainingJob.KIND, meta.name, meta.namespace, meta.uid)
