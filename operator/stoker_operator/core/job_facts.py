"""What a TrainingJob's status is made from: its Job, its pods, and how warm their nodes were and are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.goodput import EndedPod
from stoker_api.names import Reason
from stoker_api.node_workload import NodeWorkload
from stoker_api.release import ReleaseRecord
from stoker_api.trainingjob import MOST_JOB_NODES, JobNode, TrainingJob
from stoker_operator.core.class_limits import ClassTerms
from stoker_operator.core.job_goodput import ended_pods
from stoker_operator.core.jobs import dataset_requests, is_owned
from stoker_operator.core.pod_demand import Unmet
from stoker_operator.core.training_progress import workloads_of
from stoker_operator.core.tuning import job_verdict
from stoker_operator.core.views import ClusterView, PodView
from stoker_operator.core.warmth import WarmthIndex


@dataclass(frozen=True)
class JobFacts:
    """What a TrainingJob's status is made from.

    ``data`` is the warm share where the workers are or would go, for people; ``problem`` keeps the Job from being made;
    ``workloads`` is what the nodes say that its workers do. ``tries``: all pods of the Job, also those that failed or
    are going; ``ended``: what nodes tell of those that have ended.
    """

    job: Mapping[str, Any] | None
    pods: tuple[PodView, ...] = ()
    data: str = ""
    problem: Unmet | None = None
    workloads: tuple[NodeWorkload, ...] = ()
    tuned: tuple[bool, Reason, str] | None = None  # what the condition Tuned says
    tries: tuple[PodView, ...] = ()
    ended: tuple[EndedPod, ...] = ()

    @property
    def status(self) -> Mapping[str, Any]:
        """The Job's status, {} when there is none."""
        return (self.job or {}).get("status") or {}

    @property
    def held(self) -> tuple[PodView, ...]:
        """Workers behind the gate."""
        return tuple(pod for pod in self.pods if pod.gated)

    def count(self, field: str) -> int:
        """Count ``active``, ``ready``, ``succeeded`` or ``failed`` pods of the Job."""
        return int(self.status.get(field) or 0)

    @property
    def succeeded(self) -> int:
        """Workers that are done, also those that the Job controller has noted and not counted yet."""
        uncounted = self.status.get("uncountedTerminatedPods") or {}
        return self.count("succeeded") + len(uncounted.get("succeeded") or ())


def own_job(training: TrainingJob, view: ClusterView) -> Mapping[str, Any] | None:
    """Return the Job that was made for this TrainingJob."""
    job = view.jobs.get(training.key)
    return job if job is not None and is_owned(job, training) else None


def gather(
    training: TrainingJob, view: ClusterView, pods: Sequence[PodView], index: WarmthIndex, problem: Unmet | None
) -> JobFacts:
    """Return the facts. ``pods`` are those with the TrainingJob's label, of any age."""
    job = own_job(training, view)
    alive = tuple(pod for pod in pods if pod.phase != "Failed" and not pod.deleting)
    data, seen = _data(training, view, alive, index), workloads_of(view, alive)
    limits = {key: (terms.name, terms.tuning) for key, terms in _terms(training, view)}
    tuned = job_verdict(training, view.datasets, limits, view.tuning)
    tries = tuple(pod for pod in pods if job is not None and _is_of(pod, job)) if training.spec.datasets else ()
    ended = ended_pods(view.node_caches, tries, training.status.goodput)
    return JobFacts(job, alive if job is not None else (), data, problem, seen, tuned, tries, ended)


def _is_of(pod: PodView, job: Mapping[str, Any]) -> bool:
    """Tell whether a pod is this Job's, and not one of an earlier Job of its name, or of anyone who wrote its label."""
    return pod.owner is not None and pod.owner.uid == job["metadata"].get("uid")


def _terms(training: TrainingJob, view: ClusterView) -> Iterator[tuple[str, ClassTerms]]:
    for asked in training.spec.datasets:
        key = f"{asked.namespace or training.metadata.namespace}/{asked.name}"
        if key in view.terms:
            yield key, view.terms[key]


class PodsByJob:
    """The pods with a TrainingJob's label, by ``namespace/name`` of the TrainingJob; ``note`` keeps them right."""

    def __init__(self, pods: Iterable[PodView] = ()) -> None:
        self._by_job: Final[dict[str, dict[str, PodView]]] = {}
        for pod in pods:
            self.note(None, pod)

    def note(self, old: PodView | None, new: PodView | None) -> None:
        """Take over a change of a pod."""
        if old is not None and (job := _job_of(old)):
            known = self._by_job.get(job, {})
            known.pop(old.key, None)
            if not known:
                self._by_job.pop(job, None)
        if new is not None and (job := _job_of(new)):
            self._by_job.setdefault(job, {})[new.key] = new

    def of(self, job: str) -> list[PodView]:
        """Return those of one TrainingJob."""
        return list(self._by_job.get(job, {}).values())


def _job_of(pod: PodView) -> str:
    """Name the TrainingJob that a pod's label names; empty where there is none."""
    job = pod.labels.get(names.LABEL_TRAINING_JOB)
    return f"{pod.namespace}/{job}" if job else ""


def nodes_at_release(pods: Sequence[PodView]) -> tuple[JobNode, ...]:
    """Return each node that has workers, by name, and how warm it was when they were released to it."""
    workers: Counter[str] = Counter()
    percent: dict[str, int] = {}
    for pod in pods:
        if pod.node:
            workers[pod.node] += 1
            percent.setdefault(pod.node, _percent_at_release(pod))
    return tuple(
        JobNode(name=name, workers=count, warm_percent=percent[name]) for name, count in sorted(workers.items())
    )


def coldest(nodes: Sequence[JobNode]) -> tuple[JobNode, ...]:
    """Return as many as a status has room for, by name: those that were the coldest."""
    chosen = sorted(nodes, key=lambda node: (node.warm_percent, node.name))[:MOST_JOB_NODES]
    return tuple(sorted(chosen, key=lambda node: node.name))


def read_release(pod: PodView) -> ReleaseRecord | None:
    """Read the record on a released pod; None when there is none."""
    try:
        return ReleaseRecord.model_validate_json(pod.released)
    except ValidationError:
        return None


def holds(pods: Iterable[PodView]) -> Iterator[float]:
    """Yield for how long pods were held, in seconds; 0 for one that came to its node without."""
    for pod in pods:
        if not pod.released and pod.node:
            yield 0.0
        release = read_release(pod)
        if release is not None and release.held_seconds is not None:
            yield release.held_seconds


def _percent_at_release(pod: PodView) -> int:
    release = read_release(pod)
    node = next((one for one in (release.nodes if release else ()) if one.name == pod.node), None)
    if node is None or node.total_bytes <= 0:
        return 0
    # Full nodes are released to as well; what they lack must show.
    return min(100, node.warm_bytes * 100 // node.total_bytes)


def _data(training: TrainingJob, view: ClusterView, pods: Sequence[PodView], index: WarmthIndex) -> str:
    keys = dict.fromkeys(request.key for request in dataset_requests(training))
    datasets = [view.datasets[key] for key in keys if key in view.datasets]
    if not keys or len(datasets) < len(keys):
        return ""
    places = {pod.node for pod in pods if pod.node}
    shares = [index.together(datasets, node).percent for node in places or _holders(datasets, index)]
    if not shares:
        return "0%"
    return f"{sum(shares) // len(shares) if places else max(shares)}%"


def _holders(datasets: Sequence[Dataset], index: WarmthIndex) -> set[str]:
    return set[str]().union(*(index.nodes(dataset) for dataset in datasets))
