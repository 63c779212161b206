"""Uses of Datasets: mounts that nodes report, and unfinished pods that name a Dataset and may have it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_operator.core.views.catalog import CatalogEntry, catalog_entry
from stoker_operator.core.views.cluster import ClusterView, PodView

_DIGEST = re.compile(r"[0-9a-f]{64}")
PODS_NAMED = 5  # pods in a message; the rest is only counted


@dataclass(frozen=True, slots=True)
class Use:
    """One pod's use of a Dataset. ``node`` is empty until the pod has one.

    ``version`` is empty until the mount, unless the pod's volume names one.
    """

    namespace: str
    pod: str
    node: str = ""
    version: str = ""
    on_node: bool = False  # True: from a row of a NodeCache, so the node reports it
    mounted: bool = False


def settle_uses(said: Iterable[Use]) -> tuple[Use, ...]:
    """Return one use for each pod and node.

    The input is the uses from pods, then from nodes by name, of one Dataset.
    """
    found: dict[tuple[str, str, str], Use] = {}
    for use in said:
        # A mount row has more detail than the pod's spec, so it comes last and wins, except for an empty version. It
        # never replaces a use on another node, because a node may name any pod.
        pod = use.namespace, use.pod, use.node
        known = found.get(pod)
        found[pod] = replace(use, version=known.version) if known and not use.version else use
    return tuple(found[pod] for pod in sorted(found))


class GrantLookup:
    """Mount permissions, checked once for each Dataset and namespace."""

    def __init__(self, view: ClusterView) -> None:
        self._view: Final = view
        self._entries: Final[dict[str, CatalogEntry | None]] = {}
        self._known: Final[dict[tuple[str, str], bool]] = {}

    def granted(self, key: str, namespace: str) -> bool:
        """Return True if pods of ``namespace`` may mount the Dataset ``key``. Return False if it does not exist."""
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
    """Yield the Datasets that a pod names and may have, by key. Anyone may write any name into a pod."""
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
    """Yield the valid mounts of a node, by Dataset key.

    A row requests a Dataset only if a pod in the operator's own view could: see ``is_asked``. Any other row only keeps
    a Dataset that is in the node's own spec. So a mount outlives its pod, and the node gets nothing new.
    """
    cache, node = view.node_caches.get(name), view.nodes.get(name)
    if cache is None or not cache.status.mounts:
        return
    given = {f"{one.namespace}/{one.name}": one.uid for one in cache.spec.datasets if not one.adopted}
    # A node that does not answer or has no sidecar cannot remove its rows, so the pod's existence decides.
    answers = node is not None and node.ready and node.sidecar_ready
    for row in cache.status.mounts:
        key, pod = dataset_key(row), view.pods.get(f"{row.pod_namespace}/{row.pod}")
        mounted = row.phase is MountPhase.MOUNTED
        asked = pod is not None and is_asked(view, row, pod, name) and access.granted(key, row.pod_namespace)
        meta = view.meta(key)
        kept = mounted and meta is not None and given.get(key) == meta.uid and (pod is not None or answers)
        if asked or kept:
            version = row.version if _DIGEST.fullmatch(row.version) else ""
            yield key, Use(row.pod_namespace, row.pod, name, version, on_node=True, mounted=mounted)


def is_asked(view: ClusterView, row: NodeMount, pod: PodView, node: str) -> bool:
    """Return True if the row has the pod's UID, and the pod is bound to the node, unfinished, and names the Dataset."""
    same = bool(pod.uid) and pod.uid == row.pod_uid and pod.node == node
    return same and not pod.finished and dataset_key(row) in _keys_of(pod, view)


def dataset_key(row: NodeMount) -> str:
    """Return the key of the Dataset in a mount row."""
    return f"{row.dataset_namespace}/{row.dataset}"


def pods_sentence(uses: tuple[Use, ...]) -> str:
    """Format ``3 pods: team/a on node-1, team/b``: the first five by name, then a count."""
    named = [f"{use.namespace}/{use.pod}" + (f" on {use.node}" if use.node else "") for use in uses[:PODS_NAMED]]
    more = f" and {len(uses) - PODS_NAMED} more" if len(uses) > PODS_NAMED else ""
    return f"{len(uses)} pod{'s' if len(uses) != 1 else ''}: {', '.join(named)}{more}"
