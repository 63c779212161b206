"""Which version of each Dataset the workers of a TrainingJob read, all of them the same."""

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import Phase
from stoker_api.names import Reason
from stoker_api.trainingjob import JobDataset, JobDatasetVersion, TrainingJob
from stoker_operator.core.annotations import Refusal
from stoker_operator.core.catalog import CatalogEntry
from stoker_operator.core.pod_demand import Unmet
from stoker_operator.core.views import ClusterView

# A listing that is under way, or about to be, is worth waiting for: without a node for it, a worker must show the
# demand for one.
_SOON = frozenset({None, Phase.LISTING})


def settle_versions(training: TrainingJob, view: ClusterView) -> tuple[JobDatasetVersion, ...] | Unmet:
    """Return the versions for a Job that is about to be made, or why it has to wait.

    What was settled stays. Datasets that cannot be listed now get no row: their workers mount what is current then.
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
            return Unmet(Reason.INVALID_SPEC, f"{'/'.join(place)} is named at two versions: name one for all workers")
    return tuple(row for row in rows.values() if row.version)


def _find(one: JobDataset, view: ClusterView, key: str) -> str | Unmet:
    dataset: Dataset = view.datasets[key]
    if not one.version and not dataset.status.version and dataset.status.phase in _SOON:
        return Unmet(Reason.LISTING, f"Dataset {key} is being listed: its version is awaited, for all workers")
    found = CatalogEntry.of(dataset).resolve(one.version)
    return Unmet(Reason.VERSION_NOT_FOUND, found.sentence) if isinstance(found, Refusal) else found
