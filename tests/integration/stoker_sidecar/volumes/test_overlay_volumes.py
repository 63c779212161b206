"""Volumes on a node that supports overlays: swaps under running readers, remaining mounts, and killed sidecars."""

import asyncio
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.linux.mounts import pod_mounts, target_mounts
from stoker_sidecar.volumes.layers.metadata_layer import LayerForm
from stoker_sidecar.volumes.layers.overlays import Overlays
from tests.fakes.volumes import UID
from tests.support.csi_driver import FILES, RunningDriver
from tests.support.csi_node import ColdNode, Container, cold_node, container
from tests.support.keeper import mounts_below
from tests.support.waiting import eventually, eventually_async

pytestmark = pytest.mark.root
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
MODES = (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)


@pytest.fixture
def node() -> Iterator[ColdNode]:
    with cold_node() as running:
        yield running


def mode(agent: RunningDriver) -> MountMode | None:
    (row,) = agent.publisher.rows()
    return row.mode


async def settle_to(agent: RunningDriver, node: ColdNode, wanted: MountMode) -> None:
    """Reconcile, as the agent does at every change, until the mode is the expected one."""

    async def look() -> bool:
        await agent.upkeep.reconcile(UID, node.info.digest)
        return mode(agent) is wanted

    await eventually_async(look)


class OpenThings:
    """Resources that a training process keeps open: a file, a map, a folder."""

    def __init__(self, stack: ExitStack, pod: Container) -> None:
        self._pod = pod
        self._file = stack.enter_context((pod.seen / "labels.csv").open("rb"))
        with (pod.seen / "train/0.png").open("rb") as mapped:
            self._map = stack.enter_context(mmap.mmap(mapped.fileno(), 0, prot=mmap.PROT_READ))
        self._folder = os.open(pod.seen / "train", os.O_RDONLY)
        stack.callback(os.close, self._folder)

    def read(self) -> tuple[bytes, bytes, list[str], dict[str, bytes]]:
        self._file.seek(0)
        with os.scandir(self._folder) as rows:
            names = sorted(row.name for row in rows)
        return self._file.read(), bytes(self._map), names, self._pod.read()


EXPECTED = (FILES["labels.csv"], FILES["train/0.png"], ["0.png", "1.png"], FILES)


async def test_a_cold_volume_goes_from_fuse_to_overlay_to_native_under_a_running_pod(node: ColdNode) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(node.request)
        assert mode(agent) is MountMode.FUSE
        with container(node) as pod, ExitStack() as stack:
            held = [await asyncio.to_thread(OpenThings, stack, pod)]
            devices = [pod.seen.stat().st_dev]
            for wanted in (MountMode.OVERLAY, MountMode.NATIVE):
                if wanted is MountMode.NATIVE:
                    node.complete()
                await settle_to(agent, node, wanted)
                held.append(await asyncio.to_thread(OpenThings, stack, pod))
                devices.append(pod.seen.stat().st_dev)
                for things in held:
                    assert await asyncio.to_thread(things.read) == EXPECTED
            assert len(set(devices)) == 3


async def test_readers_notice_nothing_of_the_swaps(node: ColdNode) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(node.request)
        with container(node) as pod:
            stop = asyncio.Event()

            async def read_on() -> int:
                rounds = 0
                while not stop.is_set():
                    assert await asyncio.to_thread(pod.read) == FILES
                    rounds += 1
                return rounds

            async with asyncio.TaskGroup() as readers:
                tasks = [readers.create_task(read_on()) for _ in range(3)]
                await settle_to(agent, node, MountMode.OVERLAY)
                node.complete()
                await settle_to(agent, node, MountMode.NATIVE)
                stop.set()
            assert all(task.result() > 0 for task in tasks)


async def test_a_container_without_propagation_is_swapped_by_entering_its_mount_namespace(
    node: ColdNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_mounts, "belongs_to", lambda cgroups, pod_uid: True)
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(node.request)
        with container(node, "private") as pod, ExitStack() as stack:
            things = await asyncio.to_thread(OpenThings, stack, pod)
            node.complete()
            await settle_to(agent, node, MountMode.NATIVE)
            native = node.request.target.stat()
            assert (pod.seen.stat().st_dev, pod.seen.stat().st_ino) == (native.st_dev, native.st_ino)
            assert await asyncio.to_thread(things.read) == EXPECTED
            with pytest.raises(OSError, match="Read-only"):
                (pod.seen / "new").touch()


async def test_a_container_that_propagation_reached_is_not_entered(
    node: ColdNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_mounts, "belongs_to", lambda cgroups, pod_uid: True)
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(node.request)
        with container(node):
            node.complete()
            await settle_to(agent, node, MountMode.NATIVE)
            assert pod_mounts.show_in_pod("u1", target_mounts.layers(node.request.target), node.request.target) == []


async def test_a_mount_with_subpath_is_reported_in_the_mode_that_it_has(node: ColdNode) -> None:
    request = replace(node.request, pod_uid="u1")
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(request)
        await settle_to(agent, node, MountMode.OVERLAY)
        subpath = request.target.parent / "volume-subpaths" / "data" / "main" / "0"
        subpath.mkdir(parents=True)
        target_mounts.bind(request.target / "train", subpath)  # as the kubelet does
        node.complete()
        await agent.upkeep.reconcile(UID, node.info.digest)
        assert mode(agent) is MountMode.OVERLAY
        target_mounts.unmount_all(subpath)
        await agent.upkeep.reconcile(UID, node.info.digest)
        assert mode(agent) is MountMode.NATIVE


@pytest.mark.parametrize("last", [MountMode.FUSE, MountMode.OVERLAY, MountMode.NATIVE])
async def test_unpublish_leaves_no_mount_and_no_folder(node: ColdNode, last: MountMode) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(node.request)
        if last is not MountMode.FUSE:
            await settle_to(agent, node, MountMode.OVERLAY)
        if last is MountMode.NATIVE:
            node.complete()
            await settle_to(agent, node, MountMode.NATIVE)
        await agent.publisher.unpublish(node.request.target)
        assert [row.target for row in mounts_below(node.folder)] == [str(node.folder)]
        assert list((node.folder / "mnt").iterdir()) == []
        assert not node.request.target.exists()


async def test_a_new_pod_of_a_cold_version_starts_on_the_overlay_of_the_first(node: ColdNode) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(node.request)
        await settle_to(agent, node, MountMode.OVERLAY)
        await agent.publisher.unpublish(node.request.target)
        await agent.publisher.publish(node.request)
        assert (mode(agent), len(target_mounts.layers(node.request.target))) == (MountMode.OVERLAY, 1)


async def test_a_restarted_agent_leaves_an_overlay_as_it_is(node: ColdNode) -> None:
    async with node.keeper():
        async with node.agent(*MODES) as agent:
            await agent.publisher.publish(node.request)
            await settle_to(agent, node, MountMode.OVERLAY)
        before = mounts_below(node.folder)
        async with node.agent(*MODES) as agent:
            await agent.upkeep.restore()
            assert (mounts_below(node.folder), mode(agent)) == (before, MountMode.OVERLAY)


async def test_after_the_whole_sidecar_was_killed_a_pod_on_an_overlay_reads_again(node: ColdNode) -> None:
    missing = node.folder / "cache/datasets" / UID / "versions" / node.info.digest / "tree/labels.csv"
    with ExitStack() as pods:
        async with node.keeper(), node.agent(*MODES) as agent:
            await agent.publisher.publish(node.request)
            await settle_to(agent, node, MountMode.OVERLAY)
            pod = pods.enter_context(container(node))
            body = missing.read_bytes()
            missing.unlink()
        await eventually(lambda: target_mounts.is_dead(node.request.target))
        async with node.keeper(), node.agent(*MODES) as agent:
            await agent.upkeep.restore()
            missing.write_bytes(body)
            assert (await asyncio.to_thread(pod.read), mode(agent)) == (FILES, MountMode.OVERLAY)
            await agent.publisher.unpublish(node.request.target)
            assert list((node.folder / "mnt").iterdir()) == []


async def test_an_overlay_on_top_of_its_dead_fuse_layer_counts_as_dead_when_the_next_keeper_has_cleaned_up(
    node: ColdNode,
) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.publisher.publish(node.request)
        await settle_to(agent, node, MountMode.OVERLAY)
    async with node.keeper():
        await eventually(lambda: not any(row.fs_type.startswith("fuse") for row in mounts_below(node.folder / "mnt")))
        assert target_mounts.is_dead(node.request.target)


async def test_what_a_killed_agent_left_is_taken_off_at_the_next_start(node: ColdNode) -> None:
    async with node.keeper():
        async with node.agent(*MODES) as agent:
            await agent.publisher.publish(node.request)
            await settle_to(agent, node, MountMode.OVERLAY)
        target_mounts.unmount_all(node.request.target)
        (node.folder / "state/mounts.json").unlink()  # an unpublish that was killed directly after this write
        async with node.agent(*MODES) as agent:
            await agent.upkeep.restore()
            assert list((node.folder / "mnt").iterdir()) == []


async def test_a_pod_keeps_its_mount_when_the_table_of_mounts_is_lost(node: ColdNode) -> None:
    async with node.keeper():
        async with node.agent(*MODES) as agent:
            await agent.publisher.publish(node.request)
            await settle_to(agent, node, MountMode.OVERLAY)
        (node.folder / "state/mounts.json").unlink()
        before = mounts_below(node.folder)
        async with node.agent(*MODES) as agent:
            await agent.upkeep.restore()
            assert mounts_below(node.folder) == before


async def test_a_version_that_turns_out_damaged_is_read_through_its_overlay_again(node: ColdNode) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        node.complete()
        await agent.publisher.publish(node.request)
        assert mode(agent) is MountMode.NATIVE
        with container(node) as pod:
            (node.folder / "cache/datasets" / UID / "versions" / node.info.digest / "complete").unlink()
            await settle_to(agent, node, MountMode.OVERLAY)
            assert await asyncio.to_thread(pod.read) == FILES


async def test_a_layer_is_built_by_a_child_that_leaves_nothing_half_done(node: ColdNode) -> None:
    changed = asyncio.Event()
    overlays = Overlays(node.folder / "meta", node.folder / "mnt", changed.set)
    version = (UID, node.info.digest)
    manifest = node.folder / "cache/datasets" / UID / "versions" / node.info.digest / "manifest.sqlite"
    overlays.begin(version, manifest)
    assert not overlays.is_ready(version)
    await asyncio.wait_for(changed.wait(), 60)
    assert (overlays.is_ready(version), overlays.built()) == (True, (version,))


async def test_a_layer_that_cannot_be_built_is_said_once_and_not_tried_again(
    node: ColdNode, caplog: pytest.LogCaptureFixture
) -> None:
    changed = asyncio.Event()
    overlays = Overlays(node.folder / "meta", node.folder / "mnt", changed.set)
    overlays.begin((UID, "d1"), node.folder / "nowhere.sqlite")
    await asyncio.wait_for(changed.wait(), 60)
    overlays.begin((UID, "d1"), node.folder / "nowhere.sqlite")
    assert (overlays.is_ready((UID, "d1")), len(caplog.records)) == (False, 1)
    assert "nowhere.sqlite" in caplog.text


async def test_drafts_and_layers_of_earlier_boots_are_deleted_at_start(node: ColdNode) -> None:
    root = node.folder / "meta"
    overlays = Overlays(root, node.folder / "mnt", lambda: None)
    for left in ("earlier/u/d", f"{BOOT}/u/d.building", f"{BOOT}/u/kept"):
        (root / left).mkdir(parents=True)
    for left in ("earlier.images/u/d", f"{BOOT}.images/u/d.building", f"{BOOT}.images/u/also"):
        (root / left).parent.mkdir(parents=True, exist_ok=True)
        (root / left).touch()
    await overlays.clear_drafts()
    assert sorted(overlays.built()) == [("u", "also"), ("u", "kept")]
    assert sorted(path.name for path in root.iterdir()) == [BOOT, f"{BOOT}.images"]


async def test_a_folder_that_an_agent_before_built_is_used_and_no_image_is_made(node: ColdNode) -> None:
    """There may be a mounted overlay that needs it."""
    version = (UID, node.info.digest)
    manifest = node.folder / "cache/datasets" / UID / "versions" / node.info.digest / "manifest.sqlite"
    before, now = (
        Overlays(node.folder / "meta", node.folder / "mnt", lambda: None, form=form)
        for form in (LayerForm.FOLDER, LayerForm.IMAGE)
    )
    before.begin(version, manifest)
    await eventually(lambda: before.is_ready(version))
    assert (now.is_ready(version), now.built()) == (True, (version,))
