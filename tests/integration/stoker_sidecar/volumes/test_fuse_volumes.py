"""Volumes served by the real keeper and FUSE server: cold reads, promotion to native, and a sidecar that is killed."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from stoker_api.dataset import MountMode
from stoker_sidecar.linux import mounts
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
            await agent.mounted.reconcile(UID, node.info.digest)
            assert pod.seen.stat().st_dev != before
            assert await asyncio.to_thread(opened.read) == FILES["labels.csv"]
            assert pod.read() == FILES


async def test_unpublish_after_a_promotion_leaves_no_mount_and_no_server(node: ColdNode) -> None:
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        node.complete()
        await agent.mounted.reconcile(UID, node.info.digest)
        await agent.publisher.unpublish(node.request.target)
        assert mounts.layers(node.request.target) == ()
        assert mounts.layers(node.folder / "mnt" / UID / node.info.digest) == ()


async def test_a_restarted_agent_changes_nothing_for_the_pod(node: ColdNode) -> None:
    async with node.keeper():
        async with node.agent() as agent:
            await agent.publisher.publish(node.request)
        before = mounts.layers(node.request.target)
        async with node.agent() as agent:
            await agent.mounted.restore()
            assert mounts.layers(node.request.target) == before


@pytest.mark.parametrize(("complete", "mode"), [(False, MountMode.FUSE), (True, MountMode.NATIVE)])
async def test_after_the_whole_sidecar_was_killed_a_running_container_reads_again(
    node: ColdNode, complete: bool, mode: MountMode
) -> None:
    with ExitStack() as pods:
        async with node.keeper(), node.agent() as agent:
            await agent.publisher.publish(node.request)
            pod = pods.enter_context(container(node))
        await eventually(lambda: mounts.is_dead(node.request.target))
        if complete:
            node.complete()
        async with node.keeper(), node.agent() as agent:
            await agent.mounted.restore()
            assert await asyncio.to_thread(pod.read) == FILES
            assert agent.publisher.rows()[0].mode is mode
