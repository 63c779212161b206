"""Builders of TrainingJobs and their Jobs and pods, for tests."""

from typing import Any

from stoker_api import names
from stoker_api.datasets.release import ReleaseNode, ReleaseRecord
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_operator.core.jobs.jobs import make_job
from stoker_operator.core.views.cluster import PodView
from tests.unit.stoker_operator.clusters import held


def training_job(
    *, status: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> TrainingJob:
    """Make the TrainingJob vision/ddp with two workers and one Dataset."""
    defaults: dict[str, Any] = {
        "framework": "pytorch",
        "workers": 2,
        "datasets": [{"name": "imagenet", "mountPath": "/data"}],
        "template": {"spec": {"containers": [{"name": "trainer", "image": "x"}]}},
    }
    metadata = {"namespace": "vision", "name": "ddp", "uid": "tj-uid", "generation": 1, "labels": labels or {}}
    return TrainingJob.model_validate({"metadata": metadata, "spec": defaults | spec, "status": status or {}})


def job_of(training: TrainingJob, *, suspend: bool | None = None, **status: Any) -> dict[str, Any]:
    """Make its Job as in the API server."""
    job = make_job(training)
    job["metadata"]["uid"] = "job-uid"
    if suspend is not None:
        job["spec"]["suspend"] = suspend
    return job | {"status": status}


def ended(kind: str, **fields: str) -> dict[str, Any]:
    """Make a condition that ends a Job."""
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"} | fields


def worker(index: int, **fields: Any) -> PodView:
    """Make a gated worker of the TrainingJob."""
    labels = {names.LABEL_TRAINING_JOB: "ddp"}
    return held(f"ddp-{index}", **({"labels": labels, "gang": "tj-uid", "gang_size": 2} | fields))


def released(index: int, node: str = "a", *, share: float = 1.0, reason: str = "Released", **fields: Any) -> PodView:
    """Make a released worker on its node."""
    record = ReleaseRecord(
        reason=reason,
        message="why",
        held_since="",
        released_at="",
        mode="Require",
        nodes=(ReleaseNode(name=node, warm_bytes=int(share * 100), total_bytes=100),),
    )
    defaults = {"gates": (), "node": node, "phase": "Running", "released": record.model_dump_json(by_alias=True)}
    return worker(index, **(defaults | fields))
