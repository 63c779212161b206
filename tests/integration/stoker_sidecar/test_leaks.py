"""No descriptors, memory, mounts or files accumulate over a thousand cycles."""

import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_sidecar.keeper.watchdog import QUICK
from tests.support.csi_node import ColdNode, cold_node
from tests.support.keeper import Keeper, mounts_below
from tests.support.versions import VersionFolder, small_files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
_PUBLISHED = 1000
_KILLED = 60
_SERVED = 20
# Allocators keep some memory. A leak of one page per cycle is several times that.
_MEMORY = 1024 * 1024


@dataclass(frozen=True)
class _Held:
    """The resources of a process: descriptors and bytes of memory, and mounts and files below a folder."""

    descriptors: int
    memory: int
    mounts: int
    files: int


def _held(pid: int, folder: Path) -> _Held:
    gc.collect()
    return _Held(
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        memory=int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        mounts=len(mounts_below(folder)),
        files=sum(1 for _ in folder.rglob("*")),
    )


def _assert_same(before: _Held, after: _Held) -> None:
    assert (after.descriptors, after.mounts, after.files) == (before.descriptors, before.mounts, before.files)
    assert after.memory - before.memory < _MEMORY


@pytest.fixture
def node() -> Iterator[ColdNode]:
    with cold_node() as running:
        yield running


async def test_a_thousand_volumes_come_and_go(node: ColdNode) -> None:
    node.complete()
    async with node.agent() as agent:
        for number in range(_PUBLISHED + 100):
            if number == 100:  # from here on all caches are full
                before = _held(os.getpid(), node.folder)
            await agent.publisher.publish(node.request)
            await agent.publisher.unpublish(node.request.target)
        _assert_same(before, _held(os.getpid(), node.folder))


def test_a_keeper_holds_no_more_after_many_servers_and_mounts(tmp_path: Path) -> None:
    version = VersionFolder(tmp_path / "v", small_files(3))
    other = VersionFolder(tmp_path / "o", {"a": b"other"})
    with Keeper(tmp_path / "k") as keeper:
        keeper.serve(version)
        zygote = keeper.zygote()

        def cycle(kills: int, mounts: int) -> list[_Held]:
            for _ in range(kills):
                keeper.kill_server()
                # A process that ends earlier counts as a failed start, and is restarted with delays.
                ready = time.monotonic()
                wait_until(lambda: time.monotonic() - ready > QUICK.stable_after)  # noqa: B023  called at once
            for _ in range(mounts):
                keeper.serve(other)
                keeper.release(other)
            return [_held(pid, keeper.run_dir.parent) for pid in (keeper.pid, zygote)]

        for before, after in zip(cycle(10, 5), cycle(_KILLED, _SERVED), strict=True):
            _assert_same(before, after)
