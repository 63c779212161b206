"""A TrainingJob's children: the headless Service and the Indexed Job, and what is to be done about the Job."""

import hashlib
import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from stoker_api import names
from stoker_api.names import Reason
from stoker_api.trainingjob import JobPhase, TrainingJob
from stoker_operator.core.annotations import DatasetRequest, format_datasets
from stoker_operator.core.pod_demand import Unmet, find_missing
from stoker_operator.core.pod_template import CONTAINER_LISTS, template_problem
from stoker_operator.core.rendezvous import environment, merge
from stoker_operator.core.views import ClusterView

Raw = Mapping[str, Any]

# Kueue suspends and resumes Jobs of its queues itself.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
FINISHED = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})
_RESTART_POLICY = "Never"  # a failed worker's log stays, and the retry gets a node anew


class Step(Enum):
    """What is to be done about the Job now."""

    NOTHING = auto()
    CREATE = auto()
    DELETE = auto()
    SUSPEND = auto()
    RESUME = auto()


def next_step(training: TrainingJob, job: Raw | None) -> Step:
    """Decide what is to be done about ``job``, the TrainingJob's own Job as it is, None when there is none."""
    queued = QUEUE_LABEL in training.metadata.labels
    if training.status.phase in FINISHED or training.metadata.deletion_timestamp:
        return Step.NOTHING
    if job is None:
        # A queue would start a Job that it sees suspended: while a person holds it, it must not see any.
        return Step.NOTHING if queued and training.spec.suspend else Step.CREATE
    if job_end(job) is not None or job["metadata"].get("deletionTimestamp"):
        return Step.NOTHING
    return _step_of_living(training, job, queued)


def job_end(job: Raw) -> Raw | None:
    """Return the condition that ended the Job (type Complete or Failed), None while it lives."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True"), None)


def is_owned(child: Raw, training: TrainingJob) -> bool:
    """Tell whether an object was made for this TrainingJob, and not for an earlier one or by someone else."""
    owners = child["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == training.metadata.uid and owner.get("controller") for owner in owners)


def dataset_requests(training: TrainingJob) -> tuple[DatasetRequest, ...]:
    """Return the Datasets of the workers, as the annotation says it."""
    home = training.metadata.namespace
    versions = {(row.namespace, row.name): row.version for row in training.status.datasets}
    return tuple(
        DatasetRequest(space := one.namespace or home, one.name, one.mount_path, versions.get((space, one.name), ""))
        for one in training.spec.datasets
    )


def missing_dataset(training: TrainingJob, view: ClusterView) -> Unmet | None:
    """Return the first Dataset that the workers could not mount, and why: the webhook would refuse their pods."""
    keys = tuple(request.key for request in dataset_requests(training))
    missing = find_missing(keys, training.metadata.namespace, view)
    known = {key: view.datasets[key] for key in keys if key in view.datasets}
    leaving = next((key for key, dataset in known.items() if dataset.metadata.deletion_timestamp), None)
    if missing is None and leaving is not None:
        return Unmet(Reason.DATASET_NOT_FOUND, f"Dataset {leaving} is being deleted: make it anew, or name another")
    return missing


def make_service(training: TrainingJob) -> dict[str, Any]:
    """Make the headless Service that gives each worker a DNS name, from before it is ready."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.LABEL_TRAINING_JOB: training.metadata.name},
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(training), "spec": spec}


def make_job(training: TrainingJob) -> dict[str, Any]:
    """Make the Indexed Job, one completion a worker. The template must have passed ``template_problem``."""
    spec = _job_spec(training)
    metadata = _metadata(training) | {"annotations": {names.ANNOTATION_TEMPLATE_HASH: _hash(spec)}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return body | {"spec": spec | {"suspend": training.spec.suspend}}


def worker_hosts(training: TrainingJob) -> list[str]:
    """List the DNS names of the workers; the cluster's domain is added by the pods' resolver."""
    name, namespace = training.metadata.name, training.metadata.namespace
    return [f"{name}-{index}.{name}.{namespace}.svc" for index in range(training.spec.workers)]


def _step_of_living(training: TrainingJob, job: Raw, queued: bool) -> Step:
    suspended = bool(job["spec"].get("suspend"))
    hashed = (job["metadata"].get("annotations") or {}).get(names.ANNOTATION_TEMPLATE_HASH)
    changed = template_problem(training) is None and hashed != _hash(_job_spec(training))
    if changed and (suspended or training.spec.suspend):
        return Step.DELETE  # most of a Job cannot be changed; the next pass makes it anew
    if training.spec.suspend and queued:
        return Step.DELETE
    if training.spec.suspend and not suspended:
        return Step.SUSPEND
    return Step.RESUME if suspended and not training.spec.suspend and not queued else Step.NOTHING


def _hash(spec: Raw) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def _metadata(training: TrainingJob) -> dict[str, Any]:
    meta = training.metadata
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": TrainingJob.KIND,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = dict(meta.labels) | {names.LABEL_TRAINING_JOB: meta.name, names.LABEL_MANAGED_BY: names.MANAGED_BY}
    return {"name": meta.name, "namespace": meta.namespace, "labels": labels, "ownerReferences": [owner]}


def _job_spec(training: TrainingJob) -> dict[str, Any]:
    workers, template = training.spec.workers, _template(training)
    spec = {
        "completionMode": "Indexed",
        "completions": workers,
        "parallelism": workers,
        "backoffLimit": training.spec.backoff_limit,
        "template": template,
    }
    if template["spec"]["restartPolicy"] == _RESTART_POLICY:
        # A worker that was drained or preempted is replaced without counting as a failure of the training.
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec["podFailurePolicy"] = {"rules": [rule]}
    return spec


def _template(training: TrainingJob) -> dict[str, Any]:
    given = training.spec.template
    metadata = {key: value for key, value in given.metadata.items() if key not in ("labels", "annotations")}
    metadata["labels"] = (given.metadata.get("labels") or {}) | _pod_labels(training)
    metadata["annotations"] = (given.metadata.get("annotations") or {}) | _pod_annotations(training)
    # The template's fields are corev1's own names: no alias may touch them.
    spec: dict[str, Any] = given.spec.model_dump(mode="json")
    spec.setdefault("restartPolicy", _RESTART_POLICY)
    spec["subdomain"] = training.metadata.name
    variables = environment(training.spec.framework, worker_hosts(training))
    for field in CONTAINER_LISTS:
        if spec.get(field):
            spec[field] = [one | {"env": merge(variables, one.get("env") or ())} for one in spec[field]]
    return {"metadata": metadata, "spec": spec}


def _pod_labels(training: TrainingJob) -> dict[str, str]:
    labels = {names.LABEL_TRAINING_JOB: training.metadata.name}
    if training.spec.scheduling.gang:
        # The UID, not the name: pods left of an earlier TrainingJob of this name are no members.
        labels[names.LABEL_GANG] = training.metadata.uid
    return labels


def _pod_annotations(training: TrainingJob) -> dict[str, str]:
    scheduling, requests = training.spec.scheduling, dataset_requests(training)
    if not requests:
        return {}
    annotations = {
        names.ANNOTATION_DATASETS: format_datasets(requests),
        names.ANNOTATION_SCHEDULING: scheduling.mode.value,
        names.ANNOTATION_MAX_WAIT: scheduling.max_wait,
    }
    if training.spec.sampling is not None:
        annotations[names.ANNOTATION_SAMPLING] = training.spec.sampling.for_workers(training.spec.workers).text()
    return annotations | ({names.ANNOTATION_GANG_SIZE: str(training.spec.workers)} if scheduling.gang else {})
