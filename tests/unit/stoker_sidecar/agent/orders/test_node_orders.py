"""A pod reports its sampling. Its node fetches files before they are read, and reports a wrong order."""

import asyncio
import json
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import EvidenceSource, NodeWorkload, OrderSource
from stoker_client import GlobalShuffleSampler
from stoker_client.internal.order_text import order_text
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_sidecar.agent.orders.node_orders import NodeOrders
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder, ReportedOrders
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.access_protocol import AccessRow
from stoker_sidecar.wire.fetcher_hints import PageWindow, PrefetchWindow, ReuseHints
from stoker_sidecar.wire.fetcher_protocol import Done, Failed, Reply
from tests.fakes.object_store import MemoryStore
from tests.fakes.volumes import publish_request
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.next_use_model import hits_of_what_came_first
from tests.support.told_orders import AskedNothing, TorchOrders, mine
from tests.support.version_readers import InProcessReader
from tests.support.waiting import eventually

NAMES = sorted(f"train/{number % 10}/{number:04d}.jpg" for number in range(800))
LOADERS = 2
SAID = '{"seed": 3, "batch": 4, "loaders": 2, "epochs": 3, "ranks": 1, "files": {"path": "train"}}'


class DistantStore(MemoryStore):
    """A store in memory with latency."""

    @asynccontextmanager
    async def get_range(self, *place: Any, **how: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        async with super().get_range(*place, **how) as body:
            yield body


@dataclass
class Node:
    """A node's fetcher and the agent's order component, with a pod whose reads are observed."""

    cache: CacheNodeUnderTest
    digest: str
    orders: NodeOrders
    reported: ReportedOrders
    pod: Published
    numbers: dict[str, int]
    told: list[PrefetchWindow] = field(default_factory=list)
    upcoming: list[PageWindow] = field(default_factory=list)
    found: list[bool] = field(default_factory=list)

    @property
    def row(self) -> NodeWorkload:
        """The row of the pod."""
        return self.orders.shown(NodeWorkload(pod="vision/trainer-0", uid=self.pod.request.pod_uid))

    async def read(self, names: Sequence[str]) -> None:
        """Read files by several loaders in turn, and observe these reads."""
        tree = ObservedTree(UID, self.digest, EvidenceSource.FUSE)
        for start in range(0, len(names), LOADERS):
            some = names[start : start + LOADERS]
            self.found += [(self.cache.folder(self.digest) / "tree" / name).exists() for name in some]
            await asyncio.gather(*(self.cache.read(self.digest, self.numbers[name], 0, 10) for name in some))
            now = time.monotonic()
            rows = [AccessRow(now, self.numbers[name], 0, 0, 1) for name in some]
            self.orders.take(tree, self.pod.request.pod_uid, ReaderBatch(now, now, len(rows), 1.0, 0, 1.0, rows))


@asynccontextmanager
async def running(
    folder: Path,
    sampling: str,
    plugins: NodePlugins | None = None,
    quota: int | None = None,
    held: int = 2**28,
    mode: MountMode = MountMode.FUSE,
) -> AsyncIterator[Node]:
    """Run a node with an empty cache. A pod with this sampling has the version mounted.

    ``quota``: bytes of the cache. ``held``: bytes of files outside of the cache. Reports of the pod count at once.
    """
    async with open_cache_node(folder, {"bucket": DistantStore()}, transient=held) as cache:
        fill(cache.store, {name: name.encode() * 20 for name in NAMES})
        digest = await cache.list()
        await cache.configure(listingId="1", version=digest, eager=False, held=(digest,), quotaBytes=quota)
        await cache.reach(lambda status: status.files == len(NAMES))
        manifest = Manifest.open(cache.folder(digest) / "manifest.sqlite")
        numbers = {path.decode(): entry.ino for path, entry in manifest.walk()}
        manifest.close()
        request = publish_request(sampling=sampling)
        pod = Published(request, UID, digest, folder, len(NAMES), 1, mode, True)
        told: list[PrefetchWindow] = []
        upcoming: list[PageWindow] = []

        async def tell(message: PrefetchWindow | ReuseHints | PageWindow) -> Reply:
            try:
                if isinstance(message, PageWindow):
                    upcoming.append(message)
                    cache.node.bring(message)
                elif isinstance(message, ReuseHints):
                    cache.node.set_reuse_hints(message)
                else:
                    told.append(message)
                    cache.node.prefetch(message)
            except SidecarError as error:
                return Failed(error.errno, error.message)
            return Done()

        changes = Changes()
        reported = ReportedOrders(changes.mark, lambda: 1_000.0 * time.monotonic())
        orders = NodeOrders(lambda: [pod], CacheFolders([folder]), InProcessReader(), tell, changes, reported, plugins)
        task = asyncio.create_task(orders.run())
        try:
            yield Node(cache, digest, orders, reported, pod, numbers, told, upcoming)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def first_pieces(window: PrefetchWindow) -> set[int]:
    """Return the inodes of the first 64 pieces of a window."""
    return {number for number, _ in struct.iter_unpack("<II", window.pieces[: 8 * 64])}


def epoch(number: int, seed: int = 3) -> list[str]:
    """Return the files in the order of PyTorch's distributed sampler of one rank, as two loaders read them."""
    order = SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(len(NAMES), seed + number, number)
    names = [NAMES[sample] for sample in order]
    batches = [names[start : start + 4] for start in range(0, len(names), 4)]
    pairs = zip(batches[::2], batches[1::2], strict=True)
    return [one for first, second in pairs for both in zip(first, second, strict=True) for one in both]


async def test_a_cold_epoch_finds_its_files_there(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", SAID) as node:
        await eventually(lambda: bool(node.told))
        await node.read(epoch(0))
        await eventually(lambda: node.row.order == "Known")
        assert node.row.order_agreement == 100
        assert sum(node.found) >= 0.8 * len(NAMES)
        assert len(node.cache.store.gets) == len(NAMES)


async def test_a_pod_that_reports_its_order_finds_its_files_there(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", "") as node:
        sampler = GlobalShuffleSampler(len(NAMES), seed=3, rank=0, world_size=1)
        text = order_text(sampler, None, (0, 1), batch=4, loaders=2, files={"path": "train"})
        node.reported.take({node.pod.request.pod_uid: ReportedOrder(text)})
        await eventually(lambda: bool(node.told))
        await node.read([NAMES[sample] for sample in sampler])
        await eventually(lambda: node.row.order == "Known")
        assert node.row.order_source is OrderSource.REPORT
        assert node.row.order_message.startswith("epoch 0 of stoker-shuffle")
        assert sum(node.found) >= 0.8 * len(NAMES)
        node.reported.take({})
        await eventually(lambda: node.row.order == "")
        await eventually(lambda: node.told[-1].pieces == b"")


async def test_a_restarted_container_finds_its_next_files_ready(tmp_path: Path) -> None:
    # Half of the files fit: the agent sends no window for a complete version.
    half = len(NAMES) // 2 * len(NAMES[0]) * 20
    async with running(tmp_path / "cache", "", quota=half) as node:
        said = {"sampler": "torch-distributed", "seed": 3, "batch": 4, "loaders": 2, "files": {"path": "train"}}
        uid = node.pod.request.pod_uid
        node.reported.take({uid: ReportedOrder(json.dumps(said | {"epoch": 7}))})
        await eventually(lambda: bool(node.told))
        await node.read(epoch(7)[:80])
        await eventually(lambda: node.row.order_message.startswith("epoch 7"))
        node.reported.take({uid: ReportedOrder(json.dumps(said | {"epoch": 4, "position": 400}))})
        # A window of epoch 7 may still come first, because its readers moved on.
        wanted = {node.numbers[name] for name in epoch(4)[400:440]}
        await eventually(lambda: wanted <= first_pieces(node.told[-1]))
        await node.read(epoch(4)[400:480])
        await eventually(lambda: node.row.order_message.startswith("epoch 4"))


async def test_unobserved_reads_of_records_leave_the_order_unknown(tmp_path: Path) -> None:
    said = '{"seed": 3, "epochs": 3, "files": {"layout": "Records", "path": "train/0/0000.jpg", "recordBytes": 1}}'
    async with running(tmp_path / "cache", said, mode=MountMode.NATIVE) as node:
        await eventually(lambda: bool(node.told))
        rows = [AccessRow(1.0, node.numbers["train/0/0000.jpg"], 0, 0, 1)] * 600
        tree = ObservedTree(UID, node.digest, EvidenceSource.FANOTIFY)
        node.orders.take(tree, node.pod.request.pod_uid, ReaderBatch(0.0, 1.0, 600, 1.0, 0, 1.0, rows))
        assert node.row.order == "Unknown"
        assert node.row.order_message.startswith("records are read unseen on a native mount")


async def test_the_row_names_the_error_of_a_report(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", "") as node:
        node.reported.take({node.pod.request.pod_uid: ReportedOrder('{"sampler": "magic"}')})
        await eventually(lambda: node.row.order == "Unknown")
        assert node.row.order_message.startswith("the report's sampling is wrong at sampler")


async def test_a_pod_without_a_report_is_not_followed(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", "") as node:
        await node.read(epoch(0)[:200])
        assert (node.row.order, node.told) == ("", [])


async def test_a_wrong_order_is_reported_and_ends_the_prefetch(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", SAID) as node:
        await eventually(lambda: bool(node.told))
        await node.read(epoch(0, seed=900))
        await eventually(lambda: node.row.order == "Wrong")
        await eventually(lambda: node.told[-1].pieces == b"")
        assert node.row.order_message.startswith("read ")
        assert "train/" in node.row.order_message
        assert "3 of 3 epochs were looked through" in node.row.order_message


async def test_the_next_epoch_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", SAID) as node:
        await eventually(lambda: bool(node.told))
        for number in (0, 1):
            await node.read(epoch(number))
        # The epoch may be over before its order is computed. Then its last reads identify it.
        await eventually(lambda: node.row.order_message.startswith("epoch 1 of torch-distributed"))


async def test_files_of_a_warm_version_are_prefetched_into_memory(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", SAID) as node:
        await eventually(lambda: bool(node.told))
        cold = bool(node.upcoming)
        await node.read(epoch(0))
        await eventually(lambda: bool(node.upcoming) and not node.upcoming[-1].ended)
        assert not cold
        await eventually(lambda: "read ahead from the disk into memory" in node.row.order_message)


async def test_the_row_names_missing_files(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", SAID.replace('"train"', '"trian"')) as node:
        await eventually(lambda: node.row.order == "Wrong")
        assert node.row.order_message.startswith("no sample is found at 'trian'")


async def test_the_order_of_a_plug_in_is_followed_like_a_built_in_one(tmp_path: Path) -> None:
    link = TorchOrders()
    said = SAID.replace("{", '{"sampler": "plugin:mine", "parameters": {"deal": "turns"}, ', 1)
    async with running(tmp_path / "cache", said, mine(link)) as node:
        await eventually(lambda: bool(node.told))
        await node.read(epoch(0))
        await eventually(lambda: node.row.order == "Known")
        assert node.row.order_message.startswith("epoch 0 of plugin:mine")
        assert sum(node.found) >= 0.8 * len(NAMES)
        await node.read(epoch(1))
        await eventually(lambda: node.row.order_message.startswith("epoch 1 of plugin:mine"))
    assert (link.asked[0].samples, link.asked[0].seed, link.asked[0].parameters) == (
        len(NAMES),
        3,
        (("deal", "turns"),),
    )


@pytest.mark.expected_logs("is left out")
async def test_the_row_names_the_failure_of_a_plug_in(tmp_path: Path) -> None:
    said = SAID.replace("{", '{"sampler": "plugin:mine", ', 1)
    async with running(tmp_path / "cache", said, mine(AskedNothing("it failed: KeyError"))) as node:
        await eventually(lambda: node.row.order_message != "" and "left out" in node.row.order_message)
        assert node.row.order == "Unknown"
        assert node.row.order_message == "the order plug-in mine is left out: it failed: KeyError"
        assert node.told == []


@pytest.mark.expected_logs("is left out")
async def test_the_row_names_a_plug_in_that_the_node_does_not_allow(tmp_path: Path) -> None:
    said = SAID.replace("{", '{"sampler": "plugin:mine", ', 1)
    async with running(tmp_path / "cache", said) as node:
        await eventually(lambda: "name it in sidecar.orderPlugins" in node.row.order_message)


async def test_known_orders_save_more_fetches_than_a_cache_of_the_first_files(
    tmp_path: Path,
) -> None:
    size, kept, epochs = len(NAMES[0]) * 20, 200, 4
    said = f'{{"seed": 3, "epochs": {epochs}, "ranks": 2, "rank": 1, "files": {{"path": "train"}}}}'
    sampler = SAMPLERS[SamplerName.TORCH_DISTRIBUTED]
    parts = [list(sampler.order(len(NAMES), 3 + number, number))[1::2] for number in range(epochs)]
    async with running(tmp_path / "cache", said, quota=kept * size, held=48 * size) as node:
        for part in parts:
            await node.read([NAMES[sample] for sample in part])
        assert node.row.order == "Known"
        assert len(node.cache.tree(node.digest)) <= kept
        fetched = len(node.cache.store.gets)
    hits = sum(map(len, parts)) - fetched
    assert hits > 1.2 * sum(hits_of_what_came_first(parts, kept))
