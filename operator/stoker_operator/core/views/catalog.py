"""Datasets for admission and gating: which namespaces may mount them, and how strictly pods wait."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from stoker_api.datasets.dataset import Dataset, SchedulingMode
from stoker_api.jobs.pod_annotations import LEAST_VERSION, PodRequest, Refusal
from stoker_api.meta import parse_duration
from stoker_operator.core.views.cluster import InvalidDataset

_SHOWN = 5  # versions in a message
_STRICTNESS = {SchedulingMode.NONE: 0, SchedulingMode.PREFER: 1, SchedulingMode.REQUIRE: 2}


@dataclass(frozen=True)
class CatalogEntry:
    """The fields of a Dataset for admission. ``max_wait``: seconds.

    ``version``: the version for new pods, "" before the first listing. ``older``: other versions in use.
    """

    namespace: str
    name: str
    mode: SchedulingMode = SchedulingMode.PREFER
    max_wait: float = 600.0
    allowed_namespaces: tuple[str, ...] = ()
    deleting: bool = False
    version: str = ""
    older: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The key ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def admits(self, namespace: str) -> bool:
        """Return True if pods of ``namespace`` may mount it. Its own namespace always may."""
        return namespace == self.namespace or any(fnmatchcase(namespace, one) for one in self.allowed_namespaces)

    def resolve(self, named: str) -> str | Refusal:
        """Return the version that starts with ``named``.

        For "" return the current version, or "" before the first listing.
        """
        if not named:
            return self.version
        known = [version for version in (self.version, *self.older) if version]
        found = [version for version in known if version.startswith(named)]
        if len(found) == 1:
            return found[0]
        there = ", ".join(version[:LEAST_VERSION] for version in known[:_SHOWN]) or "none yet"
        what = "has more than one version" if found else "has no version"
        return Refusal(f"Dataset {self.key} {what} {named}: name one of {there}, or none for the newest")

    @classmethod
    def of(cls, dataset: Dataset) -> "CatalogEntry":
        """Return the entry of a parsed Dataset."""
        scheduling = dataset.spec.scheduling
        return cls(
            namespace=dataset.metadata.namespace,
            name=dataset.metadata.name,
            mode=scheduling.mode,
            max_wait=parse_duration(scheduling.max_wait),
            allowed_namespaces=dataset.spec.access.namespaces,
            deleting=dataset.metadata.deletion_timestamp is not None,
            version=dataset.status.version,
            older=dataset.status.versions_in_use,
        )


Catalog = Mapping[str, CatalogEntry]


@dataclass(frozen=True)
class UnknownDataset(Refusal):
    """The refusal of a Dataset that is not in the catalog. The API server may have it by now."""

    key: str


def catalog_entry(dataset: Dataset | InvalidDataset) -> CatalogEntry:
    """Return the entry of a Dataset.

    An invalid Dataset gets the strict defaults: only its own namespace may mount it.
    """
    if isinstance(dataset, Dataset):
        return CatalogEntry.of(dataset)
    meta = dataset.metadata
    return CatalogEntry(meta.namespace, meta.name, deleting=meta.deletion_timestamp is not None)


def find_entries(request: PodRequest, namespace: str, catalog: Catalog) -> tuple[CatalogEntry, ...] | Refusal:
    """Return the Datasets that a pod of ``namespace`` requests, or why one is unavailable."""
    entries = []
    for key in request.keys:
        entry = catalog.get(key)
        if entry is None:
            # Do not suggest similar names: any client of the webhook can ask in the name of any namespace.
            where = key.partition("/")[0]
            sentence = f"Dataset {key} does not exist: create it, or see `kubectl get datasets -n {where}`"
            return UnknownDataset(sentence, key)
        if not entry.admits(namespace):
            return Refusal(
                f"Dataset {key} does not admit pods of namespace {namespace}: "
                f'its owner can add "{namespace}" to its spec.access.namespaces'
            )
        if entry.deleting:
            return Refusal(f"Dataset {key} is being deleted: wait until it is created again, or name another")
        entries.append(entry)
    return tuple(entries)


def effective_mode(request: PodRequest, entries: Sequence[CatalogEntry]) -> SchedulingMode:
    """Return the pod's own mode, otherwise the strictest mode of its Datasets."""
    if request.mode is not None:
        return request.mode
    return max((entry.mode for entry in entries), key=_STRICTNESS.__getitem__, default=SchedulingMode.NONE)


def effective_max_wait(request: PodRequest, entries: Sequence[CatalogEntry]) -> float:
    """Return the pod's own wait in seconds, otherwise the longest wait of its Datasets."""
    if request.max_wait is not None:
        return request.max_wait
    return max((entry.max_wait for entry in entries), default=0.0)
