"""Kueue's AdmissionChecks and Workloads as Stoker reads them, and the pods that they will have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal, gang_problem
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import parse_duration
from stoker_api.times import parse_time
from stoker_operator.core.jobs.jobs import QUEUE_LABEL, make_job
from stoker_operator.core.plans.live_versions import is_queued
from stoker_operator.core.pods.pod_template import template_problem
from stoker_operator.core.views.cluster import InvalidTrainingJob, PodView, parse_pod

Raw = Mapping[str, Any]
# The field manager of the operator's part of a Workload's status. The API server uses it to record who set `requeueAt`.
CHECK_MANAGER = "stoker-operator-kueue"
_EVICTED_BY_CHECK = "AdmissionCheck"  # Kueue's reason of the condition Requeued
_PAST = frozenset({"Admitted", "Finished"})  # conditions of Workloads that wait for no check


class CheckState(StrEnum):
    """The state of an AdmissionCheck for a Workload, in Kueue's words."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"  # Kueue releases the quota and asks again later
    REJECTED = "Rejected"  # Kueue deactivates the Workload


@dataclass(frozen=True, slots=True)
class WarmTerms:
    """The terms of an AdmissionCheck: data that is warm now, or ``within`` seconds."""

    within: float = 0.0


@dataclass(frozen=True, slots=True)
class AdmissionCheckView:
    """An AdmissionCheck of Stoker. ``active``: its current condition Active, or None."""

    name: str
    uid: str
    generation: int
    terms: WarmTerms | Refusal
    active: Raw | None = None
    version: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CheckEntry:
    """One row of a Workload's ``status.admissionChecks``. ``since``: time of the last state change, as text."""

    name: str
    state: str
    since: str = ""
    message: str = ""
    updates: Sequence[Raw] = ()  # podSetUpdates


@dataclass(frozen=True, slots=True)
class PodSetView:
    """Identical pods: a sample pod, or why its template is unreadable, and the number of pods.

    ``says_wait``: its template has the annotation for an earlier wait, from any author. ``gang_problem``: why the
    webhook would refuse its gang.
    """

    name: str
    count: int
    pod: PodView | Refusal
    says_wait: bool = False
    gang_problem: Refusal | None = None


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A Workload, or only its identity if it waits for no check. ``requeue_at``: seconds since the epoch, 0: none."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    pod_sets: tuple[PodSetView, ...] = ()
    checks: tuple[CheckEntry, ...] = ()
    reserved: bool = False  # it has quota
    evicted: bool = False  # Kueue is releasing that quota
    held_back: bool = False  # by a check, until `requeue_at`
    requeue_at: float = 0.0
    requeue_is_ours: bool = False  # the operator wrote `requeue_at` last
    created: float = 0.0  # seconds since the epoch

    @property
    def key(self) -> str:
        """The key ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def version(self) -> int:
        """The resourceVersion as a number, or 0 if it is not numeric."""
        return int(self.resource_version) if self.resource_version.isdecimal() else 0


def parse_admission_check(raw: Raw) -> AdmissionCheckView | None:
    """Parse an AdmissionCheck. Return None if another controller owns it."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    if spec.get("controllerName") != names.KUEUE_CONTROLLER:
        return None
    conditions = (raw.get("status") or {}).get("conditions") or ()
    version = str(meta.get("resourceVersion", ""))
    return AdmissionCheckView(
        name=meta["name"],
        uid=meta.get("uid", ""),
        generation=meta.get("generation", 0),
        terms=_terms(meta.get("annotations") or {}, spec),
        active=next((one for one in conditions if one["type"] == "Active"), None),
        version=int(version) if version.isdecimal() else 0,
    )


def parse_workload(raw: Raw) -> QueuedWorkload:
    """Parse a Workload."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    said = {one["type"] for one in status.get("conditions") or () if one.get("status") == "True"}
    version = str(meta.get("resourceVersion", ""))
    known = QueuedWorkload(meta["namespace"], meta["name"], meta.get("uid", ""), version)
    checks = tuple(_check(one) for one in status.get("admissionChecks") or ())
    if not checks or meta.get("deletionTimestamp") or spec.get("active") is False or said & _PAST:
        return known
    admitted = _admitted_counts(status)
    return replace(
        known,
        pod_sets=tuple(_pod_set(meta, one, admitted) for one in spec.get("podSets") or ()),
        checks=checks,
        reserved="QuotaReserved" in said,
        evicted="Evicted" in said,
        held_back=any(map(_is_held_back, status.get("conditions") or ())),
        requeue_at=parse_time((status.get("requeueState") or {}).get("requeueAt")),
        requeue_is_ours=any(map(_owns_requeue, meta.get("managedFields") or ())),
        created=parse_time(meta.get("creationTimestamp")),
    )


def _terms(annotations: Mapping[str, str], spec: Raw) -> WarmTerms | Refusal:
    if spec.get("parameters"):
        return Refusal(
            f"spec.parameters has no effect: use the annotation {names.ANNOTATION_WARM_WITHIN} on this object"
        )
    text = annotations.get(names.ANNOTATION_WARM_WITHIN)
    try:
        return WarmTerms() if text is None else WarmTerms(parse_duration(text))
    except ValueError as error:
        return Refusal(f"the annotation {names.ANNOTATION_WARM_WITHIN} is wrong: {error}")


def _check(raw: Raw) -> CheckEntry:
    since, message = raw.get("lastTransitionTime") or "", raw.get("message") or ""
    return CheckEntry(raw["name"], raw.get("state") or "", since, message, tuple(raw.get("podSetUpdates") or ()))


def _admitted_counts(status: Raw) -> dict[str, int]:
    """Return the number of pods with quota in each set, if known. With ``minCount`` Kueue may admit fewer."""
    rows = (status.get("admission") or {}).get("podSetAssignments") or ()
    return {str(one.get("name") or "main"): int(one["count"]) for one in rows if one.get("count") is not None}


def _pod_set(meta: Raw, raw: Raw, admitted: Mapping[str, int]) -> PodSetView:
    template = raw.get("template") or {}
    given, name = template.get("metadata") or {}, str(raw.get("name") or "main")
    labels, annotations = given.get("labels") or {}, given.get("annotations") or {}
    made = {"namespace": meta["namespace"], "name": f"{meta['name']}-{name}", "annotations": annotations}
    made |= {"labels": labels | {names.LABEL_MANAGED: "true"}, "creationTimestamp": meta.get("creationTimestamp")}
    pod: PodView | Refusal
    try:
        pod = parse_pod({"metadata": made, "spec": template.get("spec") or {}})
    except Exception as error:  # noqa: BLE001 -- the boundary of a template, which anyone may have written
        pod = Refusal(f"the template of its pods {name!r} cannot be read: {error!r}")
    says_wait, wrong = names.ANNOTATION_WAITED in annotations, gang_problem(labels, annotations)
    count = admitted.get(name, int(raw.get("count", 1)))
    return PodSetView(name, max(0, count), pod, says_wait, wrong)


def _is_held_back(condition: Raw) -> bool:
    said = condition["type"], condition.get("status"), condition.get("reason")
    return said == ("Requeued", "False", _EVICTED_BY_CHECK)


def _owns_requeue(entry: Raw) -> bool:
    if entry.get("manager") != CHECK_MANAGER:
        return False
    fields = (entry.get("fieldsV1") or {}).get("f:status") or {}
    return "f:requeueAt" in (fields.get("f:requeueState") or {})


MOST_EXPECTED = 1000  # pods: the limit of one job, and the number that a benchmark of gated pods has


def expected_pods(jobs: Iterable[TrainingJob]) -> Mapping[str, PodView]:
    """Return at most MOST_EXPECTED pods that queued jobs will have, those of the oldest jobs first.

    Their keys cannot collide with real pods. The operator never writes to them or releases them. A queue's gate holds
    them until the job has pods.
    """
    found: dict[str, PodView] = {}
    for job in sorted(filter(is_queued, jobs), key=_age):
        if len(found) >= MOST_EXPECTED:
            break
        worker = worker_of(job) if job.spec.datasets else None
        if worker is None:
            continue
        for index in range(min(job.spec.workers, MOST_EXPECTED - len(found))):
            pod = replace(worker, name=f"{job.metadata.name} {index}", uid=f"{job.metadata.uid} {index}")
            found[pod.key] = pod
    return found


def worker_of(job: TrainingJob) -> PodView | None:
    """Return a worker of a queued job, or None if its template is invalid."""
    if template_problem(job) is not None:
        return None
    try:
        template = make_job(job)["spec"]["template"]
        gates = [{"name": names.GATE_WARM}, {"name": QUEUE_LABEL}]
        meta = template["metadata"] | {"namespace": job.metadata.namespace, "name": job.metadata.name}
        meta["creationTimestamp"] = job.metadata.creation_timestamp
        pod = parse_pod({"metadata": meta, "spec": template["spec"] | {"schedulingGates": gates}})
    except Exception:  # noqa: BLE001 -- the boundary of a template, of which the API server has checked nothing yet
        return None
    versions = {f"{row.namespace}/{row.name}": row.version for row in job.status.datasets}
    # Without a gang: they are neither released together nor at all.
    return replace(pod, gang="", gang_size=0, versions=versions, expected=True)


def queued_by(job: TrainingJob | InvalidTrainingJob | None) -> object:
    """Return the parts of a job that determine its expected pods, or None if it is not queued."""
    if not isinstance(job, TrainingJob) or not is_queued(job):
        return None
    return job.metadata.uid, job.spec, job.status.datasets


def _age(job: TrainingJob) -> tuple[float, str]:
    return parse_time(job.metadata.creation_timestamp), job.key
