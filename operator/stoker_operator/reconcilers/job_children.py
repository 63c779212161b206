"""Creates and changes the children of TrainingJobs, and remembers refusals by the API server."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.names import Reason
from stoker_kube.api import Object
from stoker_kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from stoker_kube.resources import JOBS, PODS, SERVICES, Kind
from stoker_operator.core.fitting.pod_demand import Unmet
from stoker_operator.core.jobs.jobs import Step, is_owned, make_job, make_service, outdated_scheduling
from stoker_operator.core.pods.pod_template import template_problem
from stoker_operator.core.views.cluster import PodView, parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)

_AT_ONCE = 20  # pods written in one pass
RETRY = 15.0  # seconds until another try to create a refused child: a person or a quota has to change something first


@dataclass(frozen=True)
class _RefusedChild:
    generation: int
    problem: Unmet
    retry_at: float


class JobChildren:
    """The Service and Job of each TrainingJob.

    Writes are safe to repeat. Raises only errors that the reconcile loop retries.
    """

    def __init__(self, writer: Writer, state: ClusterState, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._clock: Final = clock
        self._failures: Final[dict[str, _RefusedChild]] = {}

    def problem(self, training: TrainingJob) -> Unmet | None:
        """Return why the last try failed; None once a try succeeded."""
        failure = self._failures.get(training.metadata.uid)
        return failure.problem if failure is not None else None

    def retry_in(self, training: TrainingJob) -> float | None:
        """Return the seconds until the next try is due; None if none has failed."""
        failure = self._failures.get(training.metadata.uid)
        if failure is None:
            return None
        changed = failure.generation != training.metadata.generation
        return 0.0 if changed else max(0.0, failure.retry_at - self._clock())

    def forget(self, kept: set[str]) -> None:
        """Forget the TrainingJobs that are gone; ``kept``: UIDs of the existing ones."""
        for uid in self._failures.keys() - kept:
            del self._failures[uid]

    async def take(self, step: Step, training: TrainingJob, job: Mapping[str, Any] | None) -> None:
        """Run ``step``."""
        if step is Step.CREATE:
            await self._create(training)
        elif job is not None and step is Step.DELETE:
            await self._delete(training, job)
        elif job is not None and step in (Step.SUSPEND, Step.RESUME):
            await self._suspend(training, step is Step.SUSPEND)

    async def follow_scheduling(self, training: TrainingJob, pods: Iterable[PodView]) -> None:
        """Write a changed spec.scheduling to held workers, a few per pass: the writes cause the next pass."""
        changes = ((pod, outdated_scheduling(training, pod)) for pod in pods)
        for pod, annotations in islice(((pod, said) for pod, said in changes if said), _AT_ONCE):
            body: Object = {"metadata": {"uid": pod.uid, "annotations": annotations}}
            with suppress(NotFound, Conflict):  # the pod is gone
                written = await self._writer.merge(PODS, pod.name, pod.namespace, body)
                self._state.pods.put(pod.key, parse_pod(written))

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
        """Create the child, or return the existing one. Raises AlreadyExists if it has another owner."""
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
            log.debug("the Job of TrainingJob %s was replaced", training.key)
        self._state.jobs.put(training.key, None)

    async def _suspend(self, training: TrainingJob, suspend: bool) -> None:
        meta = training.metadata
        try:
            job = await self._writer.merge(JOBS, meta.name, meta.namespace, {"spec": {"suspend": suspend}})
        except NotFound:
            return
        self._state.jobs.put(training.key, job)
