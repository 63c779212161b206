"""The inputs of a TrainingJob: its Job, its pods, the warmth of their nodes, and the versions of its Datasets."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_api.datasets.release import ReleaseRecord
from stoker_api.goodput import EndedPod
from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.jobs.trainingjob import MOST_JOB_NODES, JobDataset, JobDatasetVersion, JobNode, TrainingJob
from stoker_api.names import Reason
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_operator.core.classes.class_limits import ClassTerms
from stoker_operator.core.classes.tuning import job_verdict
from stoker_operator.core.fitting.pod_demand import Unmet
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.jobs.job_goodput import ended_pods
from stoker_operator.core.jobs.jobs import dataset_requests, is_owned
from stoker_operator.core.jobs.training_progress import (
    NEWS_SECONDS,
    WorkerRows,
    last_reports,
    standing_workers,
    workloads_of,
)
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.core.views.cluster import ClusterView, PodView


@dataclass(frozen=True)
class JobFacts:
    """The inputs of a TrainingJob's status.

    ``data``: the warm share where the workers are or would go, for display. ``problem``: why the Job cannot be created.
    ``workloads``: the workers' activity, as nodes report it. ``tries``: all pods of the Job, including failed and
    deleted ones. ``ended``: nodes' reports on ended pods. ``phases_in``: seconds between two displayed phases.
    """

    job: Mapping[str, Any] | None
    pods: tuple[PodView, ...] = ()
    data: str = ""
    problem: Unmet | None = None
    workloads: tuple[NodeWorkload, ...] = ()
    tuned: tuple[bool, Reason, str] | None = None  # the condition Tuned
    tries: tuple[PodView, ...] = ()
    ended: tuple[EndedPod, ...] = ()
    phases_in: float = NEWS_SECONDS

    @property
    def worker_rows(self) -> WorkerRows:
        """The reports of its workers' training code."""
        return replace(self.final_rows(()), live=self.workloads)

    def final_rows(self, gone: Collection[str]) -> WorkerRows:
        """Return the last reports of its workers. ``gone``: UIDs of workers whose pods are deleted."""
        standing = standing_workers(self.pods, self.tries) | set(gone)
        return WorkerRows((), last_reports(self.ended, standing), standing)

    @property
    def status(self) -> Mapping[str, Any]:
        """The Job's status, {} without one."""
        return (self.job or {}).get("status") or {}

    @property
    def held(self) -> tuple[PodView, ...]:
        """Workers behind the gate."""
        return tuple(pod for pod in self.pods if pod.gated)

    def count(self, field: str) -> int:
        """Return the number of ``active``, ``ready``, ``succeeded`` or ``failed`` pods of the Job."""
        return int(self.status.get(field) or 0)

    @property
    def succeeded(self) -> int:
        """Number of succeeded workers, including those that the Job controller has not counted."""
        uncounted = self.status.get("uncountedTerminatedPods") or {}
        return self.count("succeeded") + len(uncounted.get("succeeded") or ())


def own_job(training: TrainingJob, view: ClusterView) -> Mapping[str, Any] | None:
    """Return the Job of this TrainingJob."""
    job = view.jobs.get(training.key)
    return job if job is not None and is_owned(job, training) else None


def gather(
    training: TrainingJob, view: ClusterView, pods: Sequence[PodView], index: WarmthIndex, problem: Unmet | None
) -> JobFacts:
    """Return the inputs. ``pods``: those with the TrainingJob's label, of any age."""
    job = own_job(training, view)
    alive = tuple(pod for pod in pods if pod.phase != "Failed" and not pod.deleting)
    data, seen = _data(training, view, alive, index), workloads_of(view, alive)
    limits = {key: (terms.name, terms.tuning) for key, terms in _terms(training, view)}
    tuned = job_verdict(training, view.datasets, limits, view.tuning)
    tries = tuple(pod for pod in pods if job is not None and _is_of(pod, job)) if training.spec.datasets else ()
    ended = ended_pods(view.node_caches, tries, training.status.goodput)
    return JobFacts(job, alive if job is not None else (), data, problem, seen, tuned, tries, ended)


def _is_of(pod: PodView, job: Mapping[str, Any]) -> bool:
    """Return True if this Job owns the pod.

    The label may also be on a pod of an earlier Job of this name, or written by anyone.
    """
    return pod.owner is not None and pod.owner.uid == job["metadata"].get("uid")


def _terms(training: TrainingJob, view: ClusterView) -> Iterator[tuple[str, ClassTerms]]:
    for asked in training.spec.datasets:
        key = f"{asked.namespace or training.metadata.namespace}/{asked.name}"
        if key in view.terms:
            yield key, view.terms[key]


class PodsByJob:
    """The pods with a TrainingJob's label, by ``namespace/name`` of the TrainingJob. ``note`` updates them."""

    def __init__(self, pods: Iterable[PodView] = ()) -> None:
        self._by_job: Final[dict[str, dict[str, PodView]]] = {}
        for pod in pods:
            self.note(None, pod)

    def note(self, old: PodView | None, new: PodView | None) -> None:
        """Update a pod."""
        if old is not None and (job := _job_of(old)):
            known = self._by_job.get(job, {})
            known.pop(old.key, None)
            if not known:
                self._by_job.pop(job, None)
        if new is not None and (job := _job_of(new)):
            self._by_job.setdefault(job, {})[new.key] = new

    def of(self, job: str) -> list[PodView]:
        """Return the pods of one TrainingJob."""
        return list(self._by_job.get(job, {}).values())


def _job_of(pod: PodView) -> str:
    """Return the TrainingJob in a pod's label, or ""."""
    job = pod.labels.get(names.LABEL_TRAINING_JOB)
    return f"{pod.namespace}/{job}" if job else ""


def nodes_at_release(pods: Sequence[PodView]) -> tuple[JobNode, ...]:
    """Return each node with workers, by name, and its warmth when they were released to it."""
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
    """Return the coldest nodes that fit into a status, by name."""
    chosen = sorted(nodes, key=lambda node: (node.warm_percent, node.name))[:MOST_JOB_NODES]
    return tuple(sorted(chosen, key=lambda node: node.name))


def read_release(pod: PodView) -> ReleaseRecord | None:
    """Return the record on a released pod, or None."""
    try:
        return ReleaseRecord.model_validate_json(pod.released)
    except ValidationError:
        return None


def holds(pods: Iterable[PodView]) -> Iterator[float]:
    """Yield the seconds that pods were held, 0 for a pod on a node that was never held."""
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
    # Pods also go to full nodes, and the missing share must be visible.
    return max(0, min(100, node.warm_bytes * 100 // node.total_bytes))  # the pod's owner may write the record


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


# Wait for a listing in progress or about to start. Without a node for it, a worker must create the demand.
_SOON = frozenset({None, Phase.LISTING})


def settle_versions(training: TrainingJob, view: ClusterView) -> tuple[JobDatasetVersion, ...] | Unmet:
    """Return the versions for a new Job, or why it must wait.

    Chosen versions stay. Datasets that cannot be listed now get no row, and their workers mount the version that is
    current then.
    """
    known = {(row.namespace, row.name): row for row in training.status.datasets}
    rows: dict[tuple[str, str], JobDatasetVersion] = {}
    for one in training.spec.datasets:
        place = (one.namespace or training.metadata.namespace, one.name)
        old = known.get(place)
        found = old.version if old and old.version.startswith(one.version) else _find(one, view, "/".join(place))
        if isinstance(found, Unmet):
            return found
        row = rows.setdefault(place, JobDatasetVersion(namespace=place[0], name=place[1], version=found))
        if row.version != found:
            return Unmet(Reason.INVALID_SPEC, f"{'/'.join(place)} is named with two versions: use one for all workers")
    return tuple(row for row in rows.values() if row.version)


def _find(one: JobDataset, view: ClusterView, key: str) -> str | Unmet:
    dataset: Dataset = view.datasets[key]
    if not one.version and not dataset.status.version and dataset.status.phase in _SOON:
        return Unmet(Reason.LISTING, f"Dataset {key} is being listed: all workers wait for its version")
    found = CatalogEntry.of(dataset).resolve(one.version)
    return Unmet(Reason.VERSION_NOT_FOUND, found.sentence) if isinstance(found, Refusal) else found
