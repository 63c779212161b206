"""The demand of a held pod: its Datasets, scheduling mode and deadline."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stoker_api import names
from stoker_api.datasets.dataset import Dataset, SchedulingMode
from stoker_api.jobs.pod_annotations import LEAST_VERSION, PodRequest, Refusal, parse_request
from stoker_api.names import Reason
from stoker_operator.core.views.catalog import CatalogEntry, effective_max_wait, effective_mode
from stoker_operator.core.views.cluster import ClusterView, PodView

LONGEST_WAIT = 10 * 365 * 86400.0  # seconds; a longer wait means "for ever", and its end could exceed the calendar


@dataclass(frozen=True)
class PodDemand:
    """The demand of a held pod. ``max_wait`` counts from ``since``, in seconds since the epoch."""

    datasets: tuple[Dataset, ...]
    mode: SchedulingMode
    max_wait: float
    since: float
    versions: Mapping[str, str] = field(default_factory=dict)  # by key, for Datasets not at the current version

    @property
    def deadline(self) -> float:
        """The end of ``max_wait``, in seconds since the epoch."""
        return self.since + self.max_wait

    @property
    def names(self) -> str:
        """The Datasets' keys, for messages."""
        return " and ".join(self._name(dataset) for dataset in self.datasets)

    def _name(self, dataset: Dataset) -> str:
        older = self.versions.get(dataset.key)
        return f"{dataset.key}@{older[:LEAST_VERSION]}" if older else dataset.key


@dataclass(frozen=True)
class Unmet:
    """A demand that cannot be met without a change."""

    reason: Reason
    sentence: str


def read_demand(pod: PodView, view: ClusterView, now: float) -> PodDemand | Unmet:
    """Return the demand of ``pod``, or why it cannot be met."""
    request = read_request(pod)
    if isinstance(request, Refusal):
        return Unmet(Reason.INVALID_SPEC, request.sentence)
    return find_missing(request.keys, pod.namespace, view) or _demand(pod, request, view.datasets, now)


def read_request(pod: PodView) -> PodRequest | Refusal:
    """Parse the annotations of ``pod``."""
    return parse_request(_annotations(pod), pod.namespace)


def find_missing(keys: Iterable[str], namespace: str, view: ClusterView) -> Unmet | None:
    """Return the first of the Datasets ``keys`` that pods of ``namespace`` cannot have, with the reason."""
    for key in keys:
        if key in view.invalid_datasets and key.startswith(f"{namespace}/"):
            # For other namespaces it does not exist: its access list is unknown, and its message is not for them.
            invalid = view.invalid_datasets[key]
            what = "is not valid" if invalid.reason is Reason.INVALID_SPEC else "is not accepted"
            return Unmet(invalid.reason, f"Dataset {key} {what}: {invalid.sentence}")
        if key not in view.datasets:
            return Unmet(Reason.DATASET_NOT_FOUND, f"Dataset {key} does not exist: create it, or name another")
        if not CatalogEntry.of(view.datasets[key]).admits(namespace):
            return Unmet(
                Reason.ACCESS_NOT_GRANTED,
                f"Dataset {key} does not admit pods of namespace {namespace}: "
                f'its owner can add "{namespace}" to its spec.access.namespaces',
            )
    return None


def _annotations(pod: PodView) -> dict[str, str]:
    written = {
        names.ANNOTATION_DATASETS: pod.datasets,
        names.ANNOTATION_SCHEDULING: pod.scheduling,
        names.ANNOTATION_MAX_WAIT: pod.max_wait,
    }
    return {key: value for key, value in written.items() if value}


def held_from(pod: PodView, now: float) -> float:
    """Return since when only Stoker holds the pod, in seconds since the epoch. It could not run before that."""
    if pod.held_since is None:
        return pod.created
    return min(max(pod.held_since, pod.created), now) if pod.held_since else now


def _waits_from(pod: PodView, now: float) -> float:
    """Return the start of ``maxWait``. It includes the time that the job waited in a queue for its data."""
    since = held_from(pod, now)
    return min(since, pod.waited_from) if pod.waited_from else since


def _demand(pod: PodView, request: PodRequest, datasets: Mapping[str, Dataset], now: float) -> PodDemand:
    wanted = tuple(datasets[key] for key in request.keys)
    entries = [CatalogEntry.of(dataset) for dataset in wanted]
    max_wait = min(effective_max_wait(request, entries), LONGEST_WAIT)
    versions = {key: version for key, version in pod.versions.items() if key in request.keys}
    older = {key: version for key, version in versions.items() if version != datasets[key].status.version}
    return PodDemand(wanted, effective_mode(request, entries), max_wait, _waits_from(pod, now), older)
