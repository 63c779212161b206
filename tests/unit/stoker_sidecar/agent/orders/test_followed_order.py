"""A list that has not arrived does not make one order start reader processes again and again."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.jobs.sampling import parse_sampling_text
from stoker_sidecar.agent.orders import followed_order
from stoker_sidecar.agent.orders.followed_order import FollowedOrder
from stoker_sidecar.agent.orders.order_groups import OrderGroup
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_hints import PageWindow, PrefetchWindow, ReuseHints
from stoker_sidecar.wire.fetcher_protocol import Done, Reply
from tests.support.version_readers import InProcessReader
from tests.support.versions import VersionFolder

VERSION = ("source", "a" * 64)
FILES = {"train/0.jpg": b"0", "train/1.jpg": b"1", "all.txt": b"train/1.jpg\ntrain/0.jpg\n"}
SAID = '{"files": {"layout": "FileList", "path": "all.txt"}}'


async def until(order: FollowedOrder, seen: Callable[[], bool]) -> None:
    """Run an order's work until ``seen`` returns True."""
    deadline = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < deadline
        await order.work()
        await asyncio.sleep(0)


async def test_a_list_that_is_not_on_the_disk_takes_one_question_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_order, "_AGAIN_SECONDS", 0.0)
    version = VersionFolder(tmp_path / "datasets" / VERSION[0] / "versions" / VERSION[1], FILES)
    told: list[PrefetchWindow | ReuseHints | PageWindow] = []

    async def tell(message: PrefetchWindow | ReuseHints | PageWindow) -> Reply:
        told.append(message)
        return Done()

    plan, modes = parse_sampling_text(SAID).plan(), frozenset({MountMode.FUSE})
    group = OrderGroup(VERSION, plan, (0,), frozenset({"pod"}), modes, alone=True)
    reader = InProcessReader()
    order = FollowedOrder(group, CacheFolders([tmp_path]), reader, tell, lambda: 1000, NodePlugins())
    await until(order, lambda: len(told) == 20)
    assert len(reader.asked) == 1
    version.finish("all.txt")
    await until(order, lambda: order.samples == 2)
    assert len(reader.asked) == 2
    await order.end()
