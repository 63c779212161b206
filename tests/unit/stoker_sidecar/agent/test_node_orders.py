"""A pod says how it samples: its node has files ready before they are read, and says where that is wrong."""

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

from stoker_api.dataset import MountMode
from stoker_api.node_workload import EvidenceSource, NodeWorkload, OrderSource
from stoker_client import GlobalShuffleSampler
from stoker_client.order_text import order_text
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_sidecar.agent.core.reading import ObservedTree, ReaderBatch
from stoker_sidecar.agent.core.reported_plans import ReportedOrder
from stoker_sidecar.agent.node_orders import NodeOrders
from stoker_sidecar.agent.order_plugins import OrderPlugins
from stoker_sidecar.agent.reported_orders import ReportedOrders
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.access_protocol import AccessRow
from stoker_sidecar.wire.fetcher_protocol import Ahead, Done, Failed, Reply, Returning, Upcoming
from tests.fakes.object_store import MemoryStore
from tests.fakes.volumes import publish_request
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.next_use_model import hits_of_what_came_first
from tests.support.told_orders import AskedNothing, TorchOrders
from tests.support.waiting import eventually

NAMES = sorted(f"train/{number % 10}/{number:04d}.jpg" for number in range(1000))
LOADERS = 2
SAID = '{"seed": 3, "batch": 4, "loaders": 2, "epochs": 3, "ranks": 1, "files": {"path": "train"}}'


class DistantStore(MemoryStore):
    """A store in memory that answers after a while."""

    @asynccontextmanager
    async def get_range(self, *place: Any, **how: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        async with super().get_range(*place, **how) as body:
            yield body


@dataclass
class Node:
    """A node's fetcher and the agent's part that knows orders, with a pod whose reads are seen."""

    cache: CacheNodeUnderTest
    digest: str
    orders: NodeOrders
    reported: ReportedOrders
    pod: Published
    numbers: dict[str, int]
    told: list[Ahead] = field(default_factory=list)
    upcoming: list[Upcoming] = field(default_factory=list)
    found: list[bool] = field(default_factory=list)

    @property
    def row(self) -> NodeWorkload:
        """What the node says of the pod."""
        return self.orders.shown(NodeWorkload(pod="vision/trainer-0", uid=self.pod.request.pod_uid))

    async def read(self, names: Sequence[str]) -> None:
        """Read files by several loaders that take turns, and have them seen."""
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
    plugins: OrderPlugins | None = None,
    quota: int | None = None,
    held: int = 2**28,
    mode: MountMode = MountMode.FUSE,
) -> AsyncIterator[Node]:
    """Run a node with a version of which nothing is here, mounted by a pod that says this.

    ``quota``: bytes that it keeps; ``held``: of what it does not keep. What a pod reports counts at once.
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
        told: list[Ahead] = []
        upcoming: list[Upcoming] = []

        async def tell(message: Ahead | Returning | Upcoming) -> Reply:
            try:
                if isinstance(message, Upcoming):
                    upcoming.append(message)
                    cache.node.bring(message)
                elif isinstance(message, Returning):
                    cache.node.foretell(message)
                else:
                    told.append(message)
                    cache.node.foresee(message)
            except SidecarError as error:
                return Failed(error.errno, error.message)
            return Done()

        changes = Changes()
        reported = ReportedOrders(changes.mark, lambda: 1_000.0 * time.monotonic())
        orders = NodeOrders(lambda: [pod], CacheFolders([folder]), tell, changes, reported, plugins)
        task = asyncio.create_task(orders.run())
        try:
            yield Node(cache, digest, orders, reported, pod, numbers, told, upcoming)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


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


async def test_a_pod_whose_container_was_started_once_more_has_ready_what_it_reads_then(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", "") as node:
        said = {"sampler": "torch-distributed", "seed": 3, "batch": 4, "loaders": 2, "files": {"path": "train"}}
        uid = node.pod.request.pod_uid
        node.reported.take({uid: ReportedOrder(json.dumps(said | {"epoch": 7}))})
        await eventually(lambda: bool(node.told))
        await node.read(epoch(7)[:80])
        await eventually(lambda: node.row.order_message.startswith("epoch 7"))
        before = len(node.told)
        node.reported.take({uid: ReportedOrder(json.dumps(said | {"epoch": 4, "position": 600}))})
        await eventually(lambda: any(one.pieces for one in node.told[before:]))
        first = next(one.pieces for one in node.told[before:] if one.pieces)
        numbers = [number for number, _ in struct.iter_unpack("<II", first[: 8 * 64])]
        assert {node.numbers[name] for name in epoch(4)[600:640]} <= set(numbers)
        await node.read(epoch(4)[600:680])
        await eventually(lambda: node.row.order_message.startswith("epoch 4"))


async def test_where_records_are_read_unseen_the_order_is_not_wrong_and_it_is_said(tmp_path: Path) -> None:
    said = '{"seed": 3, "epochs": 3, "files": {"layout": "Records", "path": "train/0/0000.jpg", "recordBytes": 1}}'
    async with running(tmp_path / "cache", said, mode=MountMode.NATIVE) as node:
        await eventually(lambda: bool(node.told))
        rows = [AccessRow(1.0, node.numbers["train/0/0000.jpg"], 0, 0, 1)] * 600
        tree = ObservedTree(UID, node.digest, EvidenceSource.FANOTIFY)
        node.orders.take(tree, node.pod.request.pod_uid, ReaderBatch(0.0, 1.0, 600, 1.0, 0, 1.0, rows))
        assert node.row.order == "Unknown"
        assert node.row.order_message.startswith("records are read unseen on a native mount")


async def test_what_is_wrong_with_a_report_is_told(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", "") as node:
        node.reported.take({node.pod.request.pod_uid: ReportedOrder('{"sampler": "magic"}')})
        await eventually(lambda: node.row.order == "Unknown")
        assert node.row.order_message.startswith("the report's sampling is wrong at sampler")


async def test_a_pod_that_says_nothing_is_not_followed(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", "") as node:
        await node.read(epoch(0)[:200])
        assert (node.row.order, node.told) == ("", [])


async def test_another_order_is_told_with_its_first_difference_and_fetched_no_more(tmp_path: Path) -> None:
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
        # It may be over before its order is computed, and is found by its last reads then.
        await eventually(lambda: node.row.order_message.startswith("epoch 1 of torch-distributed"))


async def test_what_comes_next_of_a_whole_version_is_told_into_memory(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", SAID) as node:
        await eventually(lambda: bool(node.told))
        cold = bool(node.upcoming)
        await node.read(epoch(0))
        await eventually(lambda: bool(node.upcoming) and not node.upcoming[-1].ended)
        assert not cold
        await eventually(lambda: "read ahead from the disk into memory" in node.row.order_message)


async def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    async with running(tmp_path / "cache", SAID.replace('"train"', '"trian"')) as node:
        await eventually(lambda: node.row.order == "Wrong")
        assert node.row.order_message.startswith("no sample is found at 'trian'")


async def test_an_order_that_a_plug_in_tells_is_followed_like_one_of_ours(tmp_path: Path) -> None:
    link = TorchOrders()
    said = SAID.replace("{", '{"sampler": "plugin:mine", "parameters": {"deal": "turns"}, ', 1)
    async with running(tmp_path / "cache", said, OrderPlugins(["mine"], link)) as node:
        await eventually(lambda: bool(node.told))
        await node.read(epoch(0))
        await eventually(lambda: node.row.order == "Known")
        assert node.row.order_message.startswith("epoch 0 of plugin:mine")
        assert sum(node.found) >= 0.8 * len(NAMES)
        await node.read(epoch(1))
        await eventually(lambda: node.row.order_message.startswith("epoch 1 of plugin:mine"))
    assert (link.asked[0].samples, link.asked[0].seed, link.asked[0].parameters) == (1000, 3, (("deal", "turns"),))


@pytest.mark.expected_logs("is left out")
async def test_why_a_plug_in_tells_no_order_is_told(tmp_path: Path) -> None:
    said = SAID.replace("{", '{"sampler": "plugin:mine", ', 1)
    async with running(tmp_path / "cache", said, OrderPlugins(["mine"], AskedNothing("it failed: KeyError"))) as node:
        await eventually(lambda: node.row.order_message != "" and "left out" in node.row.order_message)
        assert node.row.order == "Unknown"
        assert node.row.order_message == "the order plug-in mine is left out: it failed: KeyError"
        assert node.told == []


@pytest.mark.expected_logs("is left out")
async def test_a_plug_in_that_the_node_may_not_ask_is_told(tmp_path: Path) -> None:
    said = SAID.replace("{", '{"sampler": "plugin:mine", ', 1)
    async with running(tmp_path / "cache", said) as node:
        await eventually(lambda: "name it in sidecar.orderPlugins" in node.row.order_message)


async def test_a_node_that_reads_a_part_each_epoch_fetches_less_again_than_where_what_came_first_stays(
    tmp_path: Path,
) -> None:
    size, kept, epochs = len(NAMES[0]) * 20, 250, 4
    said = f'{{"seed": 3, "epochs": {epochs}, "ranks": 2, "rank": 1, "files": {{"path": "train"}}}}'
    sampler = SAMPLERS[SamplerName.TORCH_DISTRIBUTED]
    parts = [list(sampler.order(len(NAMES), 3 + number, number))[1::2] for number in range(epochs)]
    async with running(tmp_path / "cache", said, quota=kept * size, held=60 * size) as node:
        for part in parts:
            await node.read([NAMES[sample] for sample in part])
        assert node.row.order == "Known"
        assert len(node.cache.tree(node.digest)) <= kept
        fetched = len(node.cache.store.gets)
    hits = sum(map(len, parts)) - fetched
    assert hits > 1.2 * sum(hits_of_what_came_first(parts, kept))
