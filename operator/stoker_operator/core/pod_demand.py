"""What a held pod waits for: its Datasets, how strictly, and until when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stoker_api import names
from stoker_api.dataset import Dataset, SchedulingMode
from stoker_api.names import Reason
from stoker_operator.core.annotations import LEAST_VERSION, PodRequest, Refusal, parse_request
from stoker_operator.core.catalog import CatalogEntry, effective_max_wait, effective_mode
from stoker_operator.core.views import ClusterView, PodView

LONGEST_WAIT = 10 * 365 * 86400.0  # seconds; a longer one means "for ever", and a calendar could not show its end


@dataclass(frozen=True)
class PodDemand:
    """What a held pod waits for. ``since`` in seconds since the epoch: from then ``max_wait`` seconds count."""

    datasets: tuple[Dataset, ...]
    mode: SchedulingMode
    max_wait: float
    since: float
    versions: Mapping[str, str] = field(default_factory=dict)  # by key, of those that are not meant as they are now

    @property
    def deadline(self) -> float:
        """When ``max_wait`` is over, in seconds since the epoch."""
        return self.since + self.max_wait

    @property
    def names(self) -> str:
        """The Datasets' keys, for sentences."""
        return " and ".join(self._name(dataset) for dataset in self.datasets)

    def _name(self, dataset: Dataset) -> str:
        older = self.versions.get(dataset.key)
        return f"{dataset.key}@{older[:LEAST_VERSION]}" if older else dataset.key


@dataclass(frozen=True)
class Unmet:
    """A demand that cannot come true as things are."""

    reason: Reason
    sentence: str


def read_demand(pod: PodView, view: ClusterView, now: float) -> PodDemand | Unmet:
    """Read what ``pod`` waits for, or why that cannot be told."""
    request = read_request(pod)
    if isinstance(request, Refusal):
        return Unmet(Reason.INVALID_SPEC, request.sentence)
    return find_missing(request.keys, pod.namespace, view) or _demand(pod, request, view.datasets, now)


def read_request(pod: PodView) -> PodRequest | Refusal:
    """Read what the annotations of ``pod`` ask for."""
    return parse_request(_annotations(pod), pod.namespace)


def find_missing(keys: Iterable[str], namespace: str, view: ClusterView) -> Unmet | None:
    """Find the first of the Datasets ``keys`` that pods of ``namespace`` cannot have, and why."""
    for key in keys:
        if key in view.invalid_datasets and key.startswith(f"{namespace}/"):
            # To others it does not exist: whom it admits cannot be told, and its sentence is not theirs to read.
            invalid = view.invalid_datasets[key]
            what = "is not valid" if invalid.reason is Reason.INVALID_SPEC else "is not accepted"
            return Unmet(invalid.reason, f"Dataset {key} {what}: {invalid.sentence}")
        if key not in view.datasets:
            return Unmet(Reason.DATASET_NOT_FOUND, f"Dataset {key} does not exist: make it, or name another")
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
    """Return since when only Stoker holds the pod, in seconds since the epoch: before that it could not have run."""
    if pod.held_since is None:
        return pod.created
    return min(max(pod.held_since, pod.created), now) if pod.held_since else now


def _waits_from(pod: PodView, now: float) -> float:
    """Return since when ``maxWait`` counts: what its job waited in a queue for its data is a part of it."""
    since = held_from(pod, now)
    return min(since, pod.waited_from) if pod.waited_from else since


def _demand(pod: PodView, request: PodRequest, datasets: Mapping[str, Dataset], now: float) -> PodDemand:
    wanted = tuple(datasets[key] for key in request.keys)
    entries = [CatalogEntry.of(dataset) for dataset in wanted]
    max_wait = min(effective_max_wait(request, entries), LONGEST_WAIT)
    versions = {key: version for key, version in pod.versions.items() if key in request.keys}
    older = {key: version for key, version in versions.items() if version != datasets[key].status.version}
    return PodDemand(wanted, effective_mode(request, entries), max_wait, _waits_from(pod, now), older)
