"""Volumes served by the real keeper and FUSE server: cold reads, promotion to native, and killed sidecars."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.linux.mounts import mount_calls, target_mounts
from stoker_sidecar.volumes.unmount_watch import UnmountWatch
from tests.fakes.volumes import UID
from tests.support.csi_driver import FILES
from tests.support.csi_node import ColdNode, cold_node, container
from tests.support.waiting import eventually

pytestmark = pytest.mark.root


@pytest.fixture
def node() -> Iterator[ColdNode]:
    with cold_node() as running:
        yield running


async def test_a_dataset_that_is_not_complete_is_read_through_fuse(node: ColdNode) -> None:
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        with container(node) as pod:
            assert await asyncio.to_thread(pod.read) == FILES


async def test_a_promotion_reaches_a_running_container_and_its_open_files_go_on(node: ColdNode) -> None:
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        with container(node) as pod, ExitStack() as files:
            opened = files.enter_context((pod.seen / "labels.csv").open("rb"))
            before = pod.seen.stat().st_dev
            node.complete()
            await agent.upkeep.reconcile(UID, node.info.digest)
            assert pod.seen.stat().st_dev != before
            assert await asyncio.to_thread(opened.read) == FILES["labels.csv"]
            assert pod.read() == FILES


async def test_unpublish_after_a_promotion_leaves_no_mount_and_no_server(node: ColdNode) -> None:
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        node.complete()
        await agent.upkeep.reconcile(UID, node.info.digest)
        await agent.publisher.unpublish(node.request.target)
        assert target_mounts.layers(node.request.target) == ()
        assert target_mounts.layers(node.folder / "mnt" / UID / node.info.digest) == ()


async def test_a_restarted_agent_changes_nothing_for_the_pod(node: ColdNode) -> None:
    async with node.keeper():
        async with node.agent() as agent:
            await agent.publisher.publish(node.request)
        before = target_mounts.layers(node.request.target)
        async with node.agent() as agent:
            await agent.upkeep.restore()
            assert target_mounts.layers(node.request.target) == before


@pytest.mark.parametrize(("complete", "mode"), [(False, MountMode.FUSE), (True, MountMode.NATIVE)])
async def test_after_the_whole_sidecar_was_killed_a_running_container_reads_again(
    node: ColdNode, complete: bool, mode: MountMode
) -> None:
    with ExitStack() as pods:
        async with node.keeper(), node.agent() as agent:
            await agent.publisher.publish(node.request)
            pod = pods.enter_context(container(node))
        await eventually(lambda: target_mounts.is_dead(node.request.target))
        if complete:
            node.complete()
        async with node.keeper(), node.agent() as agent:
            await agent.upkeep.restore()
            assert await asyncio.to_thread(pod.read) == FILES
            assert agent.publisher.rows()[0].mode is mode


@pytest.mark.expected_logs("was unmounted by another program and is mounted again")
@pytest.mark.parametrize("place", ["the volume", "the server"])
async def test_a_mount_that_an_administrator_took_off_comes_back_and_readers_notice_nothing(
    node: ColdNode, place: str
) -> None:
    served = node.folder / "mnt" / UID / node.info.digest
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        with container(node) as pod:
            mount_calls.detach(str(node.request.target if place == "the volume" else served))
            watch = UnmountWatch(agent.mounted, node.folder / "mnt")
            for _ in range(2):
                await watch.look()
            assert await asyncio.to_thread(pod.read) == FILES
            for path in (node.request.target, served):
                assert [row.fs_type for row in target_mounts.layers(path)] == ["fuse.stoker"]
                assert (await asyncio.to_thread((path / "labels.csv").read_bytes)) == FILES["labels.csv"]
