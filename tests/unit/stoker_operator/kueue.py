"""Builders for tests of Kueue's AdmissionChecks: raw objects as its controllers leave them."""

from collections.abc import Mapping
from typing import Any

from stoker_api import names
from stoker_api.times import format_time
from stoker_operator.core.kueue.kueue_objects import CHECK_MANAGER
from stoker_operator.core.views.resources import Resources
from tests.unit.stoker_operator.builders import NOW

ROOM = Resources(4000, 1 << 34, 110)  # of the default node
CHECK = "data-warm"


def make_check(name: str = CHECK, controller: str = names.KUEUE_CONTROLLER, **annotations: str) -> dict[str, Any]:
    """Make an AdmissionCheck with annotations by short name, such as warm_within."""
    notes = {f"{names.GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1", "annotations": notes}
    return {"metadata": metadata, "spec": {"controllerName": controller}}


def pod_set(
    name: str = "main", count: int = 1, cpu: str = "1", datasets: str = "imagenet:/data", **annotations: str
) -> dict[str, Any]:
    """Make a row of ``spec.podSets``."""
    notes = {f"{names.GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    notes |= {names.ANNOTATION_DATASETS: datasets} if datasets else {}
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "name": name,
        "count": count,
        "template": {"metadata": {"annotations": notes}, "spec": {"containers": [container]}},
    }


def make_workload(
    *pod_sets: dict[str, Any],
    name: str = "job-train",
    conditions: Mapping[str, str] | None = None,
    state: str = "Pending",
    message: str = "",
    age: float = 0.0,
    **fields: Any,
) -> dict[str, Any]:
    """Make a Workload with one Stoker check. ``conditions``: status by type, or a reason for False; ``age`` in s."""
    rows = [_condition(kind, said) for kind, said in (conditions or {}).items()]
    check = {"name": CHECK, "state": state, "lastTransitionTime": format_time(NOW - 60), "message": message}
    metadata = {
        "namespace": "vision",
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": format_time(NOW - age),
    }
    status = {"conditions": rows, "admissionChecks": [check]}
    body = {"metadata": metadata, "spec": {"podSets": list(pod_sets or (pod_set(),))}, "status": status}
    for part, more in fields.items():
        body[part] |= more
    return body


def held_back(until: float, *, ours: bool = True) -> dict[str, Any]:
    """Return the fields of a Workload that a check evicted, and that stays out of the queue until then."""
    fields: dict[str, Any] = {"f:status": {"f:requeueState": {"f:requeueAt": {}}}}
    owner = {"manager": CHECK_MANAGER if ours else "kueue-provisioning", "operation": "Apply", "fieldsV1": fields}
    return {
        "status": {
            "requeueState": {"requeueAt": format_time(until)},
            "conditions": [_condition("Evicted", "True"), _condition("Requeued", "AdmissionCheck")],
        },
        "metadata": {"managedFields": [owner]},
    }


def noted_wait(since: float, until: float, pods: str = "main") -> dict[str, Any]:
    """Return the fields of a Workload with quota whose check noted its wait for data."""
    note = {"name": pods, "annotations": {names.ANNOTATION_WAITED: f"{format_time(since)}/{format_time(until)}"}}
    row = {"name": CHECK, "state": "Pending", "lastTransitionTime": format_time(since), "message": "warm"}
    return {
        "status": {
            "conditions": [_condition("QuotaReserved", "True")],
            "admissionChecks": [row | {"podSetUpdates": [note]}],
        }
    }


def _condition(kind: str, said: str) -> dict[str, str]:
    reason = kind if said in ("True", "False") else said
    return {"type": kind, "status": said if reason == kind else "False", "reason": reason}
