"""The workers of TrainingJobs that a queue holds, as pods that are held: where they will want their data."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker_api import names
from stoker_api.times import parse_time
from stoker_api.trainingjob import TrainingJob
from stoker_operator.core.jobs import QUEUE_LABEL, make_job
from stoker_operator.core.live_versions import is_queued
from stoker_operator.core.pod_template import template_problem
from stoker_operator.core.views import InvalidTrainingJob, PodView, parse_pod

MOST_EXPECTED = 1000  # pods: what one job may have at most, and as many as a bench of held pods has


def expected_pods(jobs: Iterable[TrainingJob]) -> Mapping[str, PodView]:
    """Return the pods that queued jobs will have, by keys that no pod can have; those of the oldest jobs at most.

    Nobody writes to them and they are never let go: a gate of the queue's holds them until the job has pods.
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
    """Return a worker of a queued job as it will be; None where its template is none."""
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
    # Of no gang: they are not decided upon together, nor at all.
    return replace(pod, gang="", gang_size=0, versions=versions, expected=True)


def queued_by(job: TrainingJob | InvalidTrainingJob | None) -> object:
    """Return all of a job that decides about the pods that it is expected to have; None where a queue holds none."""
    if not isinstance(job, TrainingJob) or not is_queued(job):
        return None
    return job.metadata.uid, job.spec, job.status.datasets


def _age(job: TrainingJob) -> tuple[float, str]:
    return parse_time(job.metadata.creation_timestamp), job.key
