"""Reads the cluster in the background, with the rights of the user, while a browser shows the page."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.pod_figures import PodFigures
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import Resource
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.tolerant import read_tolerantly
from stoker_cli.access.pod_figures import as_node_caches
from stoker_cli.dashboard.core import cluster_data
from stoker_cli.dashboard.core.cluster_data import ClusterData, KindAccess, held_pod
from stoker_cli.dashboard.core.node_table import DatasetIndex, NodePass, NodeTable
from stoker_cli.dashboard.server.scoped_list import ScopedLister, failure, resource_of
from stoker_cli.pods.top_row import TopRow, top_rows
from stoker_kube.api import Kube, Object
from stoker_kube.errors import Forbidden, KubeError
from stoker_kube.resources import DATASETS, NODE_CACHES, POD_FIGURES, PODS, TRAINING_JOBS

SHORTEST, LONGEST = 2.0, 60.0  # seconds between two reads of a kind
_RESTS = 10  # a pause is this multiple of the duration of the read, so that large clusters are read less often
IDLE_SECONDS = 60.0  # without a request: no reads
Read = Callable[[], Awaitable[None]]
M = TypeVar("M", bound=BaseModel)


class ClusterReader:
    """The last read objects. ``revision`` counts their changes."""

    def __init__(
        self,
        client: Kube,
        namespace: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self.data = ClusterData(namespace)
        self.revision = 0
        self._client = client
        self._lister = ScopedLister(client, namespace)
        self._clock, self._sleep = clock, sleep
        self._datasets, self._jobs = ParsedObjects(Dataset), ParsedObjects(TrainingJob)
        self._index = DatasetIndex()
        self._viewed_at = clock()
        self._viewed, self._changed = asyncio.Event(), asyncio.Event()

    @property
    def _reads(self) -> tuple[Read, ...]:
        return (self._read_datasets, self._read_jobs, self._read_held, self._read_nodes, self._read_workloads)

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for read in self._reads:
                tasks.create_task(self._repeat(read))

    async def read_all(self) -> None:
        """Read everything once."""
        for read in self._reads:
            await read()

    def viewed(self) -> None:
        """Note that a browser shows the page."""
        self._viewed_at = self._clock()
        self._viewed.set()

    async def changed(self, since: int) -> int:
        """Wait for a revision other than ``since``, and return it."""
        self.viewed()
        while self.revision == since:
            await self._changed.wait()
        return self.revision

    async def _repeat(self, read: Read) -> None:
        while True:
            if self._clock() - self._viewed_at > IDLE_SECONDS:
                self._viewed.clear()
                await self._viewed.wait()
            start = self._clock()
            await read()
            await self._sleep(min(LONGEST, max(SHORTEST, _RESTS * (self._clock() - start))))

    def _publish(self, **changes: Any) -> None:
        data = _after_failures(self.data, replace(self.data, **changes))
        if data != self.data:
            self.data, self.revision = data, self.revision + 1
            self._changed.set()
            self._changed = asyncio.Event()

    async def _read_datasets(self) -> None:
        items, access = await self._lister.list(DATASETS)
        parsed = self.data.datasets if items is None else await asyncio.to_thread(self._datasets.parse, items)
        self._publish(datasets=parsed, datasets_access=access)

    async def _read_jobs(self) -> None:
        items, access = await self._lister.list(TRAINING_JOBS)
        parsed = self.data.jobs if items is None else await asyncio.to_thread(self._jobs.parse, items)
        self._publish(jobs=parsed, jobs_access=access)

    async def _read_held(self) -> None:
        """Read the pods without a node. Released pods get one soon."""
        items, access = await self._lister.list(PODS, names.LABEL_MANAGED, "spec.nodeName=", held_pod)
        if items is None:
            self._publish(held_access=access)
            return
        self._publish(held=tuple(sorted(items, key=lambda pod: (pod.since, pod.key))), held_access=access)

    async def _read_nodes(self) -> None:
        """Read all NodeCaches page by page. The first time, each page is shown at once."""
        reading, first = NodePass(self._index), not self.data.nodes_access.read
        try:
            async for page in self._client.pages(NODE_CACHES):
                await asyncio.to_thread(reading.add, page.items)
                if first:
                    self._publish(nodes=reading.table())
            self._publish(nodes=reading.table(), nodes_access=KindAccess(read=True))
        except Forbidden:
            notice = cluster_data.nothing_readable(resource_of(NODE_CACHES), self.data.namespace)
            self._publish(nodes=NodeTable(), nodes_access=KindAccess(notice, read=True, refused=True))
        except KubeError as error:
            self._publish(nodes_access=failure(NODE_CACHES, error))

    async def _read_workloads(self) -> None:
        """Read the figures of pods from their API, else from the last NodeCaches."""
        items, access = await self._lister.list(POD_FIGURES)
        if items is not None and not (access.refused and self.data.nodes.workloads):
            rows = await asyncio.to_thread(_figures, items)
            self._publish(workloads=rows, workloads_access=access)
        elif self.data.nodes.workloads:
            rows = await asyncio.to_thread(_node_rows, self.data.nodes)
            self._publish(workloads=rows, workloads_access=KindAccess(_FROM_NODES, read=True))
        else:
            self._publish(workloads=(), workloads_access=access)


def _after_failures(before: ClusterData, after: ClusterData) -> ClusterData:
    """Keep that a kind was read, if a later read failed."""
    failed = [name for name in _ACCESSES if getattr(before, name).read and not getattr(after, name).read]
    return replace(after, **{name: replace(getattr(after, name), read=True) for name in failed})


_ACCESSES = tuple(each.name for each in fields(ClusterData) if each.name.endswith("_access"))
_FROM_NODES = "Figures of pods are from NodeCaches: ten pods per node, up to a minute old."


def _figures(items: Sequence[Object]) -> tuple[TopRow, ...]:
    caches = as_node_caches(_valid(PodFigures, items), time.time())
    return tuple(top_rows(caches, "", "pod"))


def _node_rows(table: NodeTable) -> tuple[TopRow, ...]:
    rows = (TopRow(node, row) for node, raw in table.workloads for row in _valid(NodeWorkload, [raw]))
    return tuple(sorted(rows, key=lambda row: row.workload.pod))


def _valid(model: type[M], items: Iterable[Mapping[str, Any]]) -> Iterator[M]:
    """Parse rows, without those that this release cannot read."""
    for item in items:
        with suppress(ValidationError):
            yield model.model_validate(item)


R = TypeVar("R", bound=Resource)


class ParsedObjects(Generic[R]):
    """The last parsed objects by key."""

    def __init__(self, model: type[R]) -> None:
        self._model = model
        self._known: dict[str, tuple[str, R]] = {}

    def parse(self, items: Sequence[Object]) -> dict[str, R]:
        """Return the objects by key, without those that this release cannot read."""
        parsed: dict[str, tuple[str, R]] = {}
        for item in items:
            meta = item["metadata"]
            key, version = (
                f"{meta.get('namespace', '')}/{meta['name']}",
                f"{meta.get('uid')}/{meta.get('resourceVersion')}",
            )
            known = self._known.get(key)
            try:
                parsed[key] = (
                    known if known and known[0] == version else (version, read_tolerantly(self._model, item)[0])
                )
            except ValidationError:
                continue
        self._known = parsed
        return {key: value for key, (_, value) in parsed.items()}
