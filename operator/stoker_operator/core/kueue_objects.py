"""Kueue's AdmissionChecks and Workloads as far as Stoker reads them: others' objects, parsed at the door."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from stoker_api import names
from stoker_api.meta import parse_duration
from stoker_api.times import parse_time
from stoker_operator.core.annotations import Refusal
from stoker_operator.core.gang_request import gang_problem
from stoker_operator.core.views import PodView, parse_pod

Raw = Mapping[str, Any]
# Who writes our part of a Workload's status: by that name the API server says whose `requeueAt` is.
CHECK_MANAGER = "stoker-operator-kueue"
_EVICTED_BY_CHECK = "AdmissionCheck"  # Kueue's reason of the condition Requeued
_PAST = frozenset({"Admitted", "Finished"})  # conditions of Workloads that wait for no check any more


class CheckState(StrEnum):
    """What an AdmissionCheck says of a Workload, in Kueue's words."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"  # Kueue takes the quota back, and asks again later
    REJECTED = "Rejected"  # Kueue deactivates the Workload


@dataclass(frozen=True, slots=True)
class WarmTerms:
    """What an AdmissionCheck asks for: data that is warm, or will be within ``within`` seconds."""

    within: float = 0.0


@dataclass(frozen=True, slots=True)
class AdmissionCheckView:
    """An AdmissionCheck of ours. ``active``: its condition Active as it is, None where there is none."""

    name: str
    uid: str
    generation: int
    terms: WarmTerms | Refusal
    active: Raw | None = None
    version: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CheckEntry:
    """One row of a Workload's ``status.admissionChecks``; ``since``: when its state changed last, as it is written."""

    name: str
    state: str
    since: str = ""
    message: str = ""
    updates: Sequence[Raw] = ()  # podSetUpdates


@dataclass(frozen=True, slots=True)
class PodSetView:
    """Pods that are alike: a pod as it would be made, or why that cannot be read, and how many.

    ``says_wait``: its template has the annotation that tells of an earlier wait, whoever wrote it. ``gang_problem``:
    why the webhook would refuse what it says of its gang.
    """

    name: str
    count: int
    pod: PodView | Refusal
    says_wait: bool = False
    gang_problem: Refusal | None = None


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A Workload; of one that waits for no check, who it is. ``requeue_at`` in seconds since the epoch, 0: none."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    pod_sets: tuple[PodSetView, ...] = ()
    checks: tuple[CheckEntry, ...] = ()
    reserved: bool = False  # it has quota
    evicted: bool = False  # Kueue is taking that back
    held_back: bool = False  # by a check, until `requeue_at`
    requeue_at: float = 0.0
    requeue_is_ours: bool = False  # nobody wrote `requeue_at` after us
    created: float = 0.0  # seconds since the epoch

    @property
    def key(self) -> str:
        """The key ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def version(self) -> int:
        """The resourceVersion as a number, 0 when it is none."""
        return int(self.resource_version) if self.resource_version.isdecimal() else 0


def parse_admission_check(raw: Raw) -> AdmissionCheckView | None:
    """Parse an AdmissionCheck; None for one of another controller."""
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
            f"spec.parameters means nothing here: write the annotation {names.ANNOTATION_WARM_WITHIN} on this object"
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
    """Return how many pods of each set have quota, where that is said: with ``minCount`` Kueue may admit fewer."""
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
