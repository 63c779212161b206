"""The uses of all Datasets, kept across passes. A changed pod or node costs only the Datasets that it names."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from stoker_operator.core.changed_keys import swap
from stoker_operator.core.views.catalog import catalog_entry
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.usage import GrantLookup, Use, dataset_key, mounted_on, named_by_pod, settle_uses

_Source = tuple[bool, str]  # whether it is a node, and the pod's key or the node's name


class IncrementalUses:
    """The uses of each Dataset by key, one for each pod and node, in stable order. ``update`` refreshes them."""

    def __init__(self) -> None:
        self.uses: Final[dict[str, tuple[Use, ...]]] = {}
        self._said: Final[dict[_Source, list[tuple[str, Use]]]] = {}
        self._by_key: Final[defaultdict[str, dict[_Source, list[Use]]]] = defaultdict(dict)
        self._named: Final[dict[_Source, frozenset[str]]] = {}  # keys that a source names, valid or not
        self._namers: Final[dict[str, set[_Source]]] = {}
        self._hosts: Final[dict[str, set[str]]] = {}  # pod -> nodes that report a mount for it
        self._rows: Final[dict[str, frozenset[str]]] = {}  # node -> those pods
        self._access: Final[dict[str, tuple[str, tuple[str, ...]]]] = {}  # UID and allowed namespaces

    def update(self, view: ClusterView, pods: Iterable[str], nodes: Iterable[str], datasets: Iterable[str]) -> set[str]:
        """Update these pods, nodes with their NodeCaches, and Datasets.

        Return the keys with changed uses, and those of changed pods whose mounts a node has reported already.
        """
        stale: set[_Source] = {(True, node) for node in nodes}
        for pod in pods:
            stale.add((False, pod))
            stale.update((True, node) for node in self._hosts.get(pod, ()))
        for key in datasets:
            if self._note_access(view, key):
                stale |= self._namers.get(key, set())
        access, touched, changed = GrantLookup(view), set[str](), set[str]()
        for source in stale:
            said = self._say(view, source, access)
            touched |= said
            if not source[0]:
                changed |= said
        for key in touched:
            if self._settle(key):
                changed.add(key)
        return changed

    def _note_access(self, view: ClusterView, key: str) -> bool:
        found = view.datasets.get(key) or view.invalid_datasets.get(key)
        before = self._access.get(key)
        if found is None:
            self._access.pop(key, None)
            return before is not None
        self._access[key] = (found.metadata.uid, catalog_entry(found).allowed_namespaces)
        return before != self._access[key]

    def _say(self, view: ClusterView, source: _Source, access: GrantLookup) -> set[str]:
        """Update the uses of a source. Return the keys whose uses changed."""
        self._note_names(view, source)
        before = self._said.pop(source, [])
        is_node, name = source
        pod = None if is_node else view.pods.get(name)
        said = list(mounted_on(view, name, access) if is_node else named_by_pod(view, pod, access) if pod else ())
        if said:
            self._said[source] = said
        if said == before:
            return set()
        for key, _ in before:
            self._by_key[key].pop(source, None)
        for key, use in said:
            self._by_key[key].setdefault(source, []).append(use)
        return {key for key, _ in (*before, *said)}

    def _note_names(self, view: ClusterView, source: _Source) -> None:
        is_node, name = source
        if is_node:
            cache = view.node_caches.get(name)
            rows = cache.status.mounts if cache is not None else ()
            named = frozenset(map(dataset_key, rows))
            self._note_rows(name, frozenset(f"{row.pod_namespace}/{row.pod}" for row in rows))
        else:
            pod = view.pods.get(name)
            claims = (f"{pod.namespace}/{claim}" for claim in pod.claims) if pod is not None else ()
            named = frozenset((*(pod.volumes if pod is not None else ()), *claims))
        swap(self._namers, self._named.pop(source, frozenset()), named, source)
        if named:
            self._named[source] = named

    def _note_rows(self, node: str, pods: frozenset[str]) -> None:
        swap(self._hosts, self._rows.pop(node, frozenset()), pods, node)
        if pods:
            self._rows[node] = pods

    def _settle(self, key: str) -> bool:
        said = self._by_key[key]
        before = self.uses.pop(key, ())
        if not said:
            del self._by_key[key]
            return bool(before)
        # Pods come before nodes, and nodes by name.
        self.uses[key] = settle_uses(use for source in sorted(said) for use in said[source])
        return self.uses[key] != before

    def of(self, key: str) -> tuple[Use, ...]:
        """Return the uses of one Dataset."""
        return self.uses.get(key, ())
