"""Makes and changes the Service and Job of a TrainingJob, and remembers what the API server would not take."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stoker_api.names import Reason
from stoker_api.trainingjob import TrainingJob
from stoker_kube.api import Object
from stoker_kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from stoker_kube.resources import JOBS, SERVICES, Kind
from stoker_operator.core.jobs import Step, is_owned, make_job, make_service
from stoker_operator.core.pod_demand import Unmet
from stoker_operator.core.pod_template import template_problem
from stoker_operator.mirror.state import ClusterState
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

RETRY = 15.0  # seconds until a child that could not be made is tried again: a person or a quota has to change something


@dataclass(frozen=True)
class _RefusedChild:
    generation: int
    problem: Unmet
    retry_at: float


class JobChildren:
    """The Service and Job of each TrainingJob.

    Writes are safe to repeat; raises only what the reconcile loop waits out.
    """

    def __init__(self, writer: Writer, state: ClusterState, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._clock: Final = clock
        self._failures: Final[dict[str, _RefusedChild]] = {}

    def problem(self, training: TrainingJob) -> Unmet | None:
        """Tell why the last attempt failed, while that still stands."""
        failure = self._failures.get(training.metadata.uid)
        return failure.problem if failure is not None else None

    def retry_in(self, training: TrainingJob) -> float | None:
        """Return seconds until the next attempt is due; None when none has failed."""
        failure = self._failures.get(training.metadata.uid)
        if failure is None:
            return None
        changed = failure.generation != training.metadata.generation
        return 0.0 if changed else max(0.0, failure.retry_at - self._clock())

    def forget(self, kept: set[str]) -> None:
        """Drop what is known of TrainingJobs that are gone; ``kept`` are the UIDs that are there."""
        for uid in self._failures.keys() - kept:
            del self._failures[uid]

    async def take(self, step: Step, training: TrainingJob, job: Mapping[str, Any] | None) -> None:
        """Do ``step``."""
        if step is Step.CREATE:
            await self._create(training)
        elif job is not None and step is Step.DELETE:
            await self._delete(training, job)
        elif job is not None and step in (Step.SUSPEND, Step.RESUME):
            await self._suspend(training, step is Step.SUSPEND)

    async def _create(self, training: TrainingJob) -> None:
        if self.retry_in(training):
            return
        if problem := template_problem(training):
            self._fail(training, problem)
            return
        try:
            await self._ensure(SERVICES, make_service(training), training)
            job = await self._ensure(JOBS, make_job(training), training)
        except AlreadyExists as error:
            self._fail(training, Unmet(Reason.NAME_TAKEN, error.message))
        except (Invalid, Forbidden) as error:
            sentence = f"the API server refuses it: {error.message}; correct spec.template"
            self._fail(training, Unmet(Reason.INVALID_SPEC, sentence))
        else:
            self._failures.pop(training.metadata.uid, None)
            self._state.jobs.put(training.key, job)

    async def _ensure(self, kind: Kind, body: Object, training: TrainingJob) -> Object:
        """Return the child, made if it was not there. Raises AlreadyExists when it is someone else's."""
        meta = training.metadata
        try:
            return await self._writer.create(kind, body, meta.namespace)
        except AlreadyExists:
            present = await self._writer.get(kind, meta.name, meta.namespace)
            if not is_owned(present, training):
                sentence = (
                    f"a {kind.kind} named {meta.name} exists in namespace {meta.namespace} and is not this "
                    "TrainingJob's: delete it, or give the TrainingJob another name"
                )
                raise AlreadyExists(409, "AlreadyExists", sentence) from None
            return present

    def _fail(self, training: TrainingJob, problem: Unmet) -> None:
        log.warning("TrainingJob %s cannot start: %s", training.key, problem.sentence)
        failure = _RefusedChild(training.metadata.generation, problem, self._clock() + RETRY)
        self._failures[training.metadata.uid] = failure

    async def _delete(self, training: TrainingJob, job: Mapping[str, Any]) -> None:
        meta = training.metadata
        try:
            await self._writer.delete(JOBS, meta.name, meta.namespace, uid=job["metadata"]["uid"])
        except Conflict:
            log.debug("the Job of TrainingJob %s is another one by now", training.key)
        self._state.jobs.put(training.key, None)

    async def _suspend(self, training: TrainingJob, suspend: bool) -> None:
        meta = training.metadata
        try:
            job = await self._writer.merge(JOBS, meta.name, meta.namespace, {"spec": {"suspend": suspend}})
        except NotFound:
            return
        self._state.jobs.put(training.key, job)
