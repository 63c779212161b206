"""The children of a TrainingJob: the headless Service and the Indexed Job with its environment variables."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any

from stoker_api import names
from stoker_api.jobs.pod_annotations import DatasetRequest, format_datasets
from stoker_api.jobs.trainingjob import Framework, JobPhase, TrainingJob
from stoker_api.names import Reason
from stoker_operator.core.fitting.pod_demand import Unmet, find_missing
from stoker_operator.core.gating.releases import is_freed
from stoker_operator.core.pods.pod_template import CONTAINER_LISTS, template_problem
from stoker_operator.core.views.cluster import ClusterView, PodView

Variables = list[dict[str, Any]]

PYTORCH_PORT = 29500  # torch.distributed's own default
TENSORFLOW_PORT = 2222  # TensorFlow's customary gRPC port
JAX_PORT = 1234  # as in jax.distributed.initialize's documentation

INDEX = "JOB_COMPLETION_INDEX"  # the Job controller adds it if missing, but after variables that refer to it
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def environment(framework: Framework, hosts: Sequence[str]) -> Variables:
    """Return variables for every container. ``hosts``: the workers' DNS names. Workers meet at the first one.

    pytorch: the variables of torch.distributed's env:// with one process for each worker, and PET_* for torchrun.
    tensorflow: TF_CONFIG of tf.distribute's TFConfigClusterResolver.
    jax: jax.distributed.initialize() reads the address from JAX_COORDINATOR_ADDRESS. Pass the count and the index as
    arguments, from JAX_NUM_PROCESSES and JAX_PROCESS_ID.
    """
    match framework:
        case Framework.PYTORCH:
            return [_index(), *_plain(_pytorch(hosts))]
        case Framework.TENSORFLOW:
            return [_index(), *_plain({"TF_CONFIG": _tf_config(hosts)})]
        case Framework.JAX:
            return [_index(), *_plain(_jax(hosts))]
        case Framework.NONE:
            return []


def merge(ours: Variables, theirs: Sequence[Mapping[str, Any]]) -> Variables:
    """Put ``ours`` before ``theirs``, so that theirs may refer to ours. Names in theirs win."""
    taken = {variable.get("name") for variable in theirs}
    return [one for one in ours if one["name"] not in taken] + [dict(one) for one in theirs]


def _index() -> dict[str, Any]:
    return {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}}}


def _plain(values: Mapping[str, str]) -> Variables:
    return [{"name": name, "value": value} for name, value in values.items()]


def _pytorch(hosts: Sequence[str]) -> dict[str, str]:
    rank, size, port = f"$({INDEX})", str(len(hosts)), str(PYTORCH_PORT)
    plain = {"MASTER_ADDR": hosts[0], "MASTER_PORT": port, "WORLD_SIZE": size, "RANK": rank, "NODE_RANK": rank}
    return plain | {"PET_MASTER_ADDR": hosts[0], "PET_MASTER_PORT": port, "PET_NNODES": size, "PET_NODE_RANK": rank}


def _tf_config(hosts: Sequence[str]) -> str:
    workers = [f"{host}:{TENSORFLOW_PORT}" for host in hosts]
    config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": INDEX}}
    # Only the pod knows the index, so the kubelet inserts the number.
    return json.dumps(config).replace(f'"{INDEX}"', f"$({INDEX})")


def _jax(hosts: Sequence[str]) -> dict[str, str]:
    return {
        "JAX_COORDINATOR_ADDRESS": f"{hosts[0]}:{JAX_PORT}",
        "JAX_NUM_PROCESSES": str(len(hosts)),
        "JAX_PROCESS_ID": f"$({INDEX})",
    }


Raw = Mapping[str, Any]

# Kueue suspends and resumes Jobs of its queues itself.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
FINISHED = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})
_RESTART_POLICY = "Never"  # a failed worker's log stays, and the retry may get a new node


class Step(Enum):
    """The next step for the Job."""

    NOTHING = auto()
    CREATE = auto()
    DELETE = auto()
    SUSPEND = auto()
    RESUME = auto()


def next_step(training: TrainingJob, job: Raw | None) -> Step:
    """Decide the next step for ``job``, the TrainingJob's own Job, or None."""
    queued = QUEUE_LABEL in training.metadata.labels
    if training.status.phase in FINISHED or training.metadata.deletion_timestamp:
        return Step.NOTHING
    if job is None:
        # A queue starts suspended Jobs. While a person suspends the TrainingJob, there must be no Job.
        return Step.NOTHING if queued and training.spec.suspend else Step.CREATE
    if job_end(job) is not None or job["metadata"].get("deletionTimestamp"):
        return Step.NOTHING
    return _step_of_living(training, job, queued)


def job_end(job: Raw) -> Raw | None:
    """Return the condition that ended the Job (type Complete or Failed). Return None while it runs."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True"), None)


def is_owned(child: Raw, training: TrainingJob) -> bool:
    """Return True if an object belongs to this TrainingJob, not to an earlier one or to another owner."""
    owners = child["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == training.metadata.uid and owner.get("controller") for owner in owners)


def dataset_requests(training: TrainingJob) -> tuple[DatasetRequest, ...]:
    """Return the Datasets of the workers, in the form of the annotation."""
    home = training.metadata.namespace
    versions = {(row.namespace, row.name): row.version for row in training.status.datasets}
    return tuple(
        DatasetRequest(
            space := one.namespace or home,
            one.name,
            one.mount_path,
            versions.get((space, one.name), ""),
            one.scratch or "",
        )
        for one in training.spec.datasets
    )


def missing_dataset(training: TrainingJob, view: ClusterView) -> Unmet | None:
    """Return the first Dataset that the workers cannot mount, with the reason. The webhook would refuse their pods."""
    keys = tuple(request.key for request in dataset_requests(training))
    missing = find_missing(keys, training.metadata.namespace, view)
    known = {key: view.datasets[key] for key in keys if key in view.datasets}
    leaving = next((key for key, dataset in known.items() if dataset.metadata.deletion_timestamp), None)
    if missing is None and leaving is not None:
        return Unmet(Reason.DATASET_NOT_FOUND, f"Dataset {leaving} is being deleted: create it again, or name another")
    return missing


def make_service(training: TrainingJob) -> dict[str, Any]:
    """Build the headless Service that gives each worker a DNS name even before it is ready."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.LABEL_TRAINING_JOB: training.metadata.name},
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(training), "spec": spec}


def make_job(training: TrainingJob) -> dict[str, Any]:
    """Build the Indexed Job, one completion for each worker. The template must have passed ``template_problem``."""
    spec = _job_spec(training)
    metadata = _metadata(training) | {"annotations": {names.ANNOTATION_TEMPLATE_HASH: _hash(spec)}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return body | {"spec": spec | {"suspend": training.spec.suspend}}


def outdated_scheduling(training: TrainingJob, pod: PodView) -> dict[str, str]:
    """Return the annotations of a held worker to update after a change of spec.scheduling. {}: none.

    A manual release stays.
    """
    if not pod.gated or is_freed(pod) or not training.spec.datasets:
        return {}
    scheduling = training.spec.scheduling
    pairs = (
        (names.ANNOTATION_SCHEDULING, pod.scheduling, scheduling.mode.value),
        (names.ANNOTATION_MAX_WAIT, pod.max_wait, scheduling.max_wait),
    )
    return {key: wanted for key, said, wanted in pairs if said != wanted}


def worker_hosts(training: TrainingJob) -> list[str]:
    """Return the DNS names of the workers. The pods' resolver adds the cluster's domain."""
    name, namespace = training.metadata.name, training.metadata.namespace
    return [f"{name}-{index}.{name}.{namespace}.svc" for index in range(training.spec.workers)]


def _step_of_living(training: TrainingJob, job: Raw, queued: bool) -> Step:
    suspended = bool(job["spec"].get("suspend"))
    hashed = (job["metadata"].get("annotations") or {}).get(names.ANNOTATION_TEMPLATE_HASH)
    changed = template_problem(training) is None and hashed != _hash(_job_spec(training))
    if changed and (suspended or training.spec.suspend):
        return Step.DELETE  # most fields of a Job are immutable; the next pass recreates it
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
        # A drained or preempted worker is replaced without counting as a failure.
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec["podFailurePolicy"] = {"rules": [rule]}
    return spec


def _template(training: TrainingJob) -> dict[str, Any]:
    given = training.spec.template
    metadata = {key: value for key, value in given.metadata.items() if key not in ("labels", "annotations")}
    metadata["labels"] = (given.metadata.get("labels") or {}) | _pod_labels(training)
    metadata["annotations"] = (given.metadata.get("annotations") or {}) | _pod_annotations(training)
    # The template's fields are corev1's own names, so no alias may change them.
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
        # The UID instead of the name: pods of an earlier TrainingJob of this name are no members.
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
