"""A cluster of any size that a leader finds: its state, and an API server that takes everything and answers at once."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.dataset_status import DatasetStatus
from stoker_api.meta import ObjectMeta
from stoker_api.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_kube.api import Kube, Object
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import Kind
from stoker_operator.core.listing import new_id
from stoker_operator.core.node_cache_reader import NodeCacheReader
from stoker_operator.core.plan import NodeCacheWrite
from stoker_operator.core.views import COMPONENT_LABEL, SIDECAR_COMPONENT, NodeView, Owner, PodView
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.datasets import DatasetReconciler
from stoker_operator.writer import Writer

_VERSION = "d" * 64
_SIZE = 1 << 30
_SILENT_EVERY = 20  # nodes from one that is silent to the next, from the last one on
_MOST_PASSES = 30  # until nothing is left to write


class DiscardedEvents(EventRecorder):
    """Events that nobody is told of."""

    def __init__(self) -> None:
        """Keep nothing."""

    def event(self, ref: ObjectRef, type: str, reason: str, message: str) -> None:
        """Tell nobody."""


class _Taken(Writer):
    """An API server that takes everything and answers at once."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(cast("Kube", None))  # every way to it is below
        self._state: Final = state
        self.count = 0

    async def node_cache(self, write: NodeCacheWrite) -> NodeCache:
        """Take a plan; the node goes on to say what it said."""
        self.count += 1
        old = self._state.node_caches.get(write.node.name)
        return (old or _warm_cache(write.node.name, ())).model_copy(update={"spec": write.spec})

    async def dataset_status(self, key: str, uid: str, status: DatasetStatus) -> Dataset | None:
        """Take a status."""
        self.count += 1
        old = self._state.datasets.get(key)
        return old.model_copy(update={"status": status}) if isinstance(old, Dataset) else None

    async def dataset_finalizers(self, meta: ObjectMeta, finalizers: tuple[str, ...]) -> Dataset:
        """Take finalizers."""
        self.count += 1
        old = self._state.datasets.get(f"{meta.namespace}/{meta.name}")
        known = old if isinstance(old, Dataset) else _dataset(meta.name, 3, "")
        return known.model_copy(update={"metadata": meta.model_copy(update={"finalizers": finalizers})})

    async def apply(self, kind: Kind, body: Object) -> Object:
        """Take an object as it is."""
        self.count += 1
        return _named(body)

    async def create_account(self, body: Object, namespace: str) -> Object:
        """Take an account as it is."""
        self.count += 1
        return _named(body)

    async def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """Give a volume or claim of Stoker's own."""
        return {
            "metadata": {"uid": name, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_DATASET: ""}}
        }


class LedCluster:
    """A cluster in which every Dataset is warm where it should be, as a leader finds it."""

    def __init__(self, nodes: int, datasets: int, everywhere: int, secret: str = "") -> None:
        """Begin with nodes alone; ``secret``: that all Datasets name, whose rights are then decided about as well."""
        self.state: Final = ClusterState("stoker")
        self._secret: Final = secret
        self._reader: Final = NodeCacheReader()
        self.writer: Final = _Taken(self.state)
        self.nodes: Final = [f"node-{number:05}" for number in range(nodes)]
        self.few: Final = [f"few-{number:05}" for number in range(datasets)]
        self.all: Final = [f"all-{number:03}" for number in range(everywhere)]
        for node in self.nodes:
            self.state.nodes.put(node, NodeView(node, uid=node))
            self.state.pods.put(f"stoker/s-{node}", _sidecar(node))
        self.reconciler: Final = DatasetReconciler(self.state, self.writer, DiscardedEvents(), time.time)

    def make(self) -> None:
        """Have every Dataset warm where it should be."""
        held: dict[str, list[tuple[Dataset, str]]] = {node: [] for node in self.nodes}
        for name, holders in self._placed():
            replicas: int | str = "all" if name in self.all else 3
            dataset = _dataset(name, replicas, holders[0], self._secret)
            self.state.datasets.put(dataset.key, dataset)
            for node in holders:
                held[node].append((dataset, dataset.status.listing_id if node == holders[0] else ""))
        for node, known in held.items():
            self.state.node_caches.put(node, _warm_cache(node, known))

    def silence(self, count: int) -> None:
        """Let so many nodes, of those that have no Dataset of few replicas, have a sidecar that never says a word."""
        for node in self.nodes[::-_SILENT_EVERY][:count]:
            self.state.node_caches.put(node, NodeCache.model_validate({"metadata": {"name": node, "uid": node}}))

    def _placed(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each Dataset with the nodes that have it."""
        count = len(self.nodes)
        for number, name in enumerate(self.few):
            yield name, [self.nodes[(3 * number + replica) % count] for replica in range(min(3, count))]
        for name in self.all:
            yield name, self.nodes

    async def settle(self) -> None:
        """Let everything be planned until nothing is left to write."""
        for _ in range(_MOST_PASSES):
            before = self.writer.count
            await self.step()
            if self.writer.count == before:
                return
        raise RuntimeError("the cluster does not come to rest")

    async def step(self) -> None:
        """Make a pass, and wait for what came of it."""
        await self.reconciler.reconcile()
        await self.reconciler.work.settled()

    def save(self, path: Path) -> None:
        """Write all that a leader finds, a line each."""
        with path.open("w") as file:
            for cache in self.state.node_caches.snapshot().values():
                file.write(_line("node_cache", _wire(cache)))
            for dataset in self.state.datasets.snapshot().values():
                file.write(_line("dataset", dataset.wire() if isinstance(dataset, Dataset) else {}))
            for table in ("roles", "role_bindings", "node_accounts"):
                for row in getattr(self.state, table).snapshot().values():
                    file.write(_line(table, row))

    def load(self, path: Path) -> None:
        """Read it as it comes from the API server."""
        with path.open() as file:
            for line in file:
                kind, raw = json.loads(line)
                if kind == "node_cache":
                    self.state.node_caches.put(raw["metadata"]["name"], self._reader.view(raw))
                elif kind == "dataset":
                    self.state.datasets.put(f"team/{raw['metadata']['name']}", Dataset.model_validate(raw))
                else:
                    key = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
                    getattr(self.state, kind).put(key, raw)

    def wire(self, node: str) -> Object:
        """Return a NodeCache as the API server has it."""
        cache = self.state.node_caches.get(node)
        assert cache is not None
        return _wire(cache)

    def read(self, cache: NodeCache) -> NodeCache:
        """Read a NodeCache as it comes from the API server."""
        return self._reader.view(json.loads(json.dumps(_wire(cache))))

    def changes(self, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the changes to measure, each with the name of its figure."""
        few, everywhere = self.few[number % len(self.few)], self.all[number % len(self.all)]
        yield "idle", lambda: None
        yield "change", lambda: self.report(few, self.holder(few), _SIZE - number - 1)
        yield (
            "change_everywhere",
            lambda: self.report(everywhere, self.nodes[number % len(self.nodes)], _SIZE - number - 1),
        )
        yield "pod", lambda: self.add_pod(few, number)
        yield "dataset", lambda: self.prefer(few, number + 1)

    def add_pod(self, name: str, number: int) -> None:
        """Have a pod use a Dataset on a node that has it."""
        pod = PodView("team", f"p{number}", uid=f"p{number}", node=self.holder(name), volumes=(f"team/{name}",))
        self.state.pods.put(pod.key, pod)

    def prefer(self, name: str, priority: int) -> None:
        """Change a Dataset's priority."""
        dataset = self.state.datasets.get(f"team/{name}")
        assert isinstance(dataset, Dataset)
        warm = dataset.spec.warm.model_copy(update={"priority": priority})
        spec = dataset.spec.model_copy(update={"warm": warm})
        self.state.datasets.put(dataset.key, dataset.model_copy(update={"spec": spec}))

    def report(self, name: str, node: str, warm: int) -> None:
        """Have a node say that so many bytes of a Dataset are there."""
        cache = self.state.node_caches.get(node)
        assert cache is not None
        rows = tuple(
            row.model_copy(update={"warm_bytes": warm}) if row.name == name else row for row in cache.status.datasets
        )
        told = cache.model_copy(update={"status": cache.status.model_copy(update={"datasets": rows})})
        self.state.node_caches.put(node, self.read(told))

    def holder(self, name: str) -> str:
        """Return a node that has the Dataset."""
        dataset = self.state.datasets.get(f"team/{name}")
        assert isinstance(dataset, Dataset)
        return dataset.status.nodes[0].name


def _named(body: Object) -> Object:
    return body | {"metadata": body["metadata"] | {"uid": body["metadata"]["name"], "resourceVersion": "1"}}


def _wire(cache: NodeCache) -> Object:
    status = cache.status.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    spec = cache.spec.wire(shared_neighbours=cache.status.shared_neighbours)
    return {"metadata": cache.metadata.wire(), "spec": spec, "status": status}


def _line(kind: str, raw: object) -> str:
    return json.dumps([kind, raw]) + "\n"


def _sidecar(node: str) -> PodView:
    labels = {COMPONENT_LABEL: SIDECAR_COMPONENT, names.LABEL_NODE_ACCOUNT: "true"}
    owner = Owner("DaemonSet", "sidecar", "sidecar")
    return PodView("stoker", f"s-{node}", uid=f"s-{node}", node=node, ready=True, labels=labels, owner=owner)


def _dataset(name: str, replicas: int | str, lister: str, secret: str = "") -> Dataset:
    metadata = {"namespace": "team", "name": name, "uid": f"uid-of-{name}", "finalizers": [names.FINALIZER]}
    credentials = {"credentials": {"secretRef": {"name": secret}}} if secret else {}
    spec = {"source": {"uri": f"s3://bucket/{name}/"} | credentials, "cache": {"replicas": replicas}}
    made = Dataset.model_validate({"metadata": metadata, "spec": spec})
    now = time.time()
    listed = {"version": _VERSION, "listing_id": new_id(made, now), "listing_node": lister, "bytes": _SIZE}
    listed |= {"listed_at": format_time(now + 1.0), "files": 1000}
    return made.model_copy(update={"status": made.status.model_copy(update=listed)})


def _warm_cache(node: str, held: Sequence[tuple[Dataset, str]]) -> NodeCache:
    """Make the NodeCache of a node that has these Datasets; with each the listing that it was asked for, if any."""
    entries, rows = [], []
    for dataset, listing in held:
        which = {"namespace": "team", "name": dataset.metadata.name, "uid": dataset.metadata.uid, "version": _VERSION}
        entries.append(which | {"source": dataset.spec.source.wire(), "eager": True, "listingId": listing})
        row = which | {"phase": "Warm", "files": 1000, "bytes": _SIZE, "warmFiles": 1000, "warmBytes": _SIZE}
        answer = {"id": listing, "version": _VERSION, "files": 1000, "bytes": _SIZE}
        rows.append(row | ({"listing": answer} if listing else {}))
    status = {"availableBytes": 1 << 40, "address": f"{node}.example:8081", "inventory": True, "datasets": rows}
    status["sharedNeighbours"] = True
    raw = {"metadata": {"name": node, "uid": node}, "spec": {"datasets": entries}, "status": status}
    return NodeCache.model_validate(raw)
