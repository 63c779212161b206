"""Who uses which dataset: the mounts that nodes report, and unfinished pods that name it and may have it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stoker_api.node_storage import MountPhase, NodeMount
from stoker_operator.core.catalog import CatalogEntry, catalog_entry
from stoker_operator.core.views import ClusterView, PodView

PODS_NAMED = 5  # pods that a sentence names before it only counts


@dataclass(frozen=True, slots=True)
class Use:
    """One pod's use of a dataset; ``node`` is empty while the pod has none.

    ``version`` is empty until it is mounted, unless the pod's volume names one.
    """

    namespace: str
    pod: str
    node: str = ""
    version: str = ""
    on_node: bool = False  # True: a row of a NodeCache, so the node itself says so
    mounted: bool = False


def find_uses(view: ClusterView) -> Mapping[str, tuple[Use, ...]]:
    """Find the uses of each Dataset, by key, one a pod and node, in a stable order.

    Anyone may write any Dataset's name into a pod, so a pod that names one counts only where that admits the pod's
    namespace. What is mounted counts until it is unmounted, also after a grant was taken back.
    """
    access = GrantLookup(view)
    found: dict[str, list[Use]] = {}
    said = [one for pod in view.pods.values() for one in named_by_pod(view, pod, access)]
    said += [one for node in sorted(view.node_caches) for one in mounted_on(view, node, access)]
    for key, use in said:
        found.setdefault(key, []).append(use)
    return {key: settle_uses(uses) for key, uses in found.items()}


def settle_uses(said: Iterable[Use]) -> tuple[Use, ...]:
    """Return one use a pod, of what pods and then nodes, by name, say of one Dataset."""
    found: dict[tuple[str, str], Use] = {}
    for use in said:
        # A mount row says more than the pod's spec does, so it comes last and wins; but for the version, perhaps.
        known = found.get((use.namespace, use.pod))
        found[use.namespace, use.pod] = replace(use, version=known.version) if known and not use.version else use
    return tuple(found[pod] for pod in sorted(found))


class GrantLookup:
    """Who may mount what, asked once for each Dataset and namespace."""

    def __init__(self, view: ClusterView) -> None:
        self._view: Final = view
        self._entries: Final[dict[str, CatalogEntry | None]] = {}
        self._known: Final[dict[tuple[str, str], bool]] = {}

    def granted(self, key: str, namespace: str) -> bool:
        """Tell whether pods of ``namespace`` may mount the Dataset ``key``; False when there is no such Dataset."""
        pair = (key, namespace)
        if pair not in self._known:
            entry = self._entry(key)
            self._known[pair] = entry is not None and entry.admits(namespace)
        return self._known[pair]

    def _entry(self, key: str) -> CatalogEntry | None:
        if key not in self._entries:
            dataset = self._view.datasets.get(key) or self._view.invalid_datasets.get(key)
            self._entries[key] = None if dataset is None else catalog_entry(dataset)
        return self._entries[key]


def named_by_pod(view: ClusterView, pod: PodView, access: GrantLookup) -> Iterator[tuple[str, Use]]:
    """Yield the Datasets that a pod may have and names, by key."""
    if pod.finished:
        return
    for key in _keys_of(pod, view):
        if access.granted(key, pod.namespace):
            yield key, Use(pod.namespace, pod.name, pod.node, pod.versions.get(key, ""))


def _keys_of(pod: PodView, view: ClusterView) -> Iterator[str]:
    yield from pod.volumes
    for claim in pod.claims:
        key = f"{pod.namespace}/{claim}"
        if key in view.datasets or key in view.invalid_datasets:
            yield key


def mounted_on(view: ClusterView, name: str, access: GrantLookup) -> Iterator[tuple[str, Use]]:
    """Yield what a node says of its mounts, by the Datasets' keys, as far as it counts."""
    cache, node = view.node_caches.get(name), view.nodes.get(name)
    for row in cache.status.mounts if cache is not None else ():
        pod_exists = f"{row.pod_namespace}/{row.pod}" in view.pods
        # A node that stopped answering or lost its sidecar cannot take back its rows: the pod's existence decides.
        answers = node is not None and node.ready and node.sidecar_ready
        if (pod_exists or answers) and _may_count(row, access):
            mounted = row.phase is MountPhase.MOUNTED
            yield dataset_key(row), Use(row.pod_namespace, row.pod, name, row.version, on_node=True, mounted=mounted)


def _may_count(row: NodeMount, access: GrantLookup) -> bool:
    # A pending row is a question of a node that may know nothing of the Dataset, nor who may have it.
    return row.phase is MountPhase.MOUNTED or access.granted(dataset_key(row), row.pod_namespace)


def dataset_key(row: NodeMount) -> str:
    """Return the key of the Dataset that a row of mounts is about."""
    return f"{row.dataset_namespace}/{row.dataset}"


def pods_sentence(uses: tuple[Use, ...]) -> str:
    """Write ``3 pods: team/a on node-1, team/b``: the first five by name, then a count."""
    named = [f"{use.namespace}/{use.pod}" + (f" on {use.node}" if use.node else "") for use in uses[:PODS_NAMED]]
    more = f" and {len(uses) - PODS_NAMED} more" if len(uses) > PODS_NAMED else ""
    return f"{len(uses)} pod{'s' if len(uses) != 1 else ''}: {', '.join(named)}{more}"
