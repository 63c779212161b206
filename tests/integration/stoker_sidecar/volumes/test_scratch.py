"""Scratch layers of real volumes: writes by a plain user, the limit, restarts, and removal."""

import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import VolumeError
from stoker_sidecar.linux.mounts import mountinfo, target_mounts
from stoker_sidecar.linux.mounts.mount_calls import detach
from stoker_sidecar.volumes.core.publish import PublishRequest
from tests.fakes.volumes import UID
from tests.support.csi_driver import FILES, RunningDriver
from tests.support.csi_node import ColdNode, cold_node, container
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.root
MODES = (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)
SIZE = 64 * 1024**2
_USER = 4321


@pytest.fixture
def node() -> Iterator[ColdNode]:
    with cold_node() as running:
        yield running


@contextmanager
def plain_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in ``folder`` as a user without privileges. Nothing else may run until the end."""
    monkeypatch.chdir(folder)  # the path to it is root's alone
    os.setegid(_USER)
    os.seteuid(_USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        monkeypatch.chdir("/")


def scratch(node: ColdNode, **changes: object) -> PublishRequest:
    return replace(node.request, scratch_bytes=SIZE, **changes)  # type: ignore[arg-type]


async def publish(agent: RunningDriver, request: PublishRequest) -> Path:
    """Publish it as the kubelet does, which tries again while the layer of names is being built."""

    async def done() -> bool:
        with suppress(VolumeError):
            await agent.publisher.publish(request)
            return True
        return False

    await eventually_async(done)
    return request.target


def change_everything() -> None:
    """Change the files of the current folder as programs do."""
    assert {path: Path(path).read_bytes() for path in FILES} == FILES
    with Path("labels.csv").open("r+b") as file:
        file.write(b"9")
        os.fsync(file.fileno())
    Path("train").rename("moved")
    Path("moved/0.png").rename("zero")
    with Path("zero").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:1] = b"Z"
        mapped.flush()
    Path("moved/1.png").unlink()
    Path("new").mkdir()
    Path("new/lock.mdb").write_bytes(b"lock")


def fill(path: str) -> None:
    """Write until an error."""
    with Path(path).open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024**2))


def set_attributes_of_overlays(path: str) -> None:
    """Expect a refusal of each."""
    Path(path).touch()
    for name in ("redirect", "metacopy", "opaque"):
        with pytest.raises(OSError, match="not permitted"):
            os.setxattr(path, f"trusted.overlay.{name}", b"/labels.csv")


def layers(node: ColdNode) -> list[str]:
    below = mountinfo.below(mountinfo.read(), str(node.folder / "mnt" / "scratch"))
    return [row.fs_type for row in below]


async def test_a_plain_user_changes_everything_and_the_data_stays(
    node: ColdNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = node.folder / "cache" / "datasets" / UID / "versions" / node.info.digest / "tree"
    async with node.keeper(), node.agent(*MODES) as agent:
        target = await publish(agent, scratch(node))
        with plain_user(target, monkeypatch):
            change_everything()
        assert sorted(path.name for path in target.iterdir()) == ["labels.csv", "moved", "new", "zero"]
        assert [(target / name).read_bytes() for name in ("labels.csv", "zero")] == [b"9,1\n", b"Zero"]
        assert list((target / "moved").iterdir()) == []
        assert {path: (tree / path).read_bytes() for path in FILES} == FILES


async def test_the_limit_is_no_space_left(node: ColdNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        target = await publish(agent, scratch(node))
        with plain_user(target, monkeypatch), pytest.raises(OSError, match="No space left") as full:
            fill("fill")
        assert full.value.errno == errno.ENOSPC
        assert SIZE * 0.8 < (target / "fill").stat().st_size <= SIZE
        (target / "fill").unlink()
        (target / "again").write_bytes(bytes(1024**2))


async def test_a_pod_gets_no_devices_and_no_attributes_of_overlays(
    node: ColdNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        target = await publish(agent, scratch(node))
        (row,) = target_mounts.layers(target)
        assert {"rw", "nosuid", "nodev"} <= set(row.options)
        with plain_user(target, monkeypatch):
            set_attributes_of_overlays("own")
        with pytest.raises(OSError, match="not permitted"):  # a whiteout, also by root
            os.mknod(target / "whiteout", 0o020666, os.makedev(0, 0))
        os.mknod(target / "null", 0o020666, os.makedev(1, 3))
        with pytest.raises(PermissionError):
            (target / "null").read_bytes()


async def test_writes_stay_when_the_sidecar_starts_again(node: ColdNode) -> None:
    request = scratch(node)
    async with node.keeper():
        async with node.agent(*MODES) as agent:
            (await publish(agent, request) / "kept").write_bytes(b"kept")
        with container(node) as pod:
            async with node.agent(*MODES) as agent:
                await agent.upkeep.restore()
                await publish(agent, request)
                assert len(target_mounts.layers(request.target)) == 1
                assert (pod.seen / "kept").read_bytes() == b"kept"
                (pod.seen / "more").write_bytes(b"more")
                await agent.publisher.unpublish(request.target)
                await agent.publisher.unpublish(request.target)
                assert layers(node) == []
                assert not request.target.exists()


async def test_writes_stay_when_fuse_server_and_mount_are_lost(node: ColdNode) -> None:
    request = scratch(node)
    async with node.keeper(), node.agent(*MODES) as agent:
        (await publish(agent, request) / "kept").write_bytes(b"kept")
    async with node.keeper(), node.agent(*MODES) as agent:  # its FUSE mount is dead
        await agent.upkeep.restore()
        assert (request.target / "kept").read_bytes() == b"kept"
        assert (request.target / "labels.csv").read_bytes() == FILES["labels.csv"]
        detach(str(request.target))
        await agent.publisher.publish(request)
        assert (request.target / "kept").read_bytes() == b"kept"
        (request.target / "labels.csv").write_bytes(b"new")


async def test_a_reboot_empties_the_layer(node: ColdNode) -> None:
    request = scratch(node)
    async with node.keeper(), node.agent(*MODES) as agent:
        (await publish(agent, request) / "lost").write_bytes(b"lost")
    for row in reversed(mountinfo.below(mountinfo.read(), str(node.folder / "mnt"))):
        detach(row.target)
    target_mounts.unmount_all(request.target)
    shutil.rmtree(node.folder / "state" / "names")
    async with node.keeper(), node.agent(*MODES) as agent:
        await agent.upkeep.restore()
        await publish(agent, request)
        assert {path: (request.target / path).read_bytes() for path in FILES} == FILES
        assert not (request.target / "lost").exists()


async def test_layers_of_vanished_pods_are_removed_at_the_start(node: ColdNode) -> None:
    request = scratch(node)
    async with node.keeper():
        async with node.agent(*MODES) as agent:
            await publish(agent, request)
        target_mounts.unmount_all(request.target)
        request.target.rmdir()
        (node.folder / "state" / "mounts.json").unlink()
        assert "ext4" in layers(node)
        async with node.agent(*MODES) as agent:
            await agent.upkeep.restore()
            assert layers(node) == []


async def test_a_layer_that_a_pod_sees_stays_without_its_row(node: ColdNode) -> None:
    request = scratch(node)
    async with node.keeper():
        async with node.agent(*MODES) as agent:
            (await publish(agent, request) / "kept").write_bytes(b"kept")
        (node.folder / "state" / "mounts.json").unlink()
        async with node.agent(*MODES) as agent:
            await agent.upkeep.restore()
            assert (request.target / "kept").read_bytes() == b"kept"


async def test_a_complete_version_changes_no_mount_with_scratch(node: ColdNode) -> None:
    async with node.keeper(), node.agent(*MODES) as agent:
        target = await publish(agent, scratch(node))
        (target / "kept").write_bytes(b"kept")
        node.complete()
        assert await agent.upkeep.reconcile(UID, node.info.digest)
        await agent.upkeep.renew((UID, node.info.digest))
        assert len(target_mounts.layers(target)) == 1
        assert (target / "kept").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("modes", "changes", "sentence"),
    [
        ((MountMode.NATIVE, MountMode.FUSE), {}, "scratch needs an overlay: the kernel has no overlays"),
        (MODES, {"user_namespace": True}, "the pod has hostUsers: false"),
        (MODES, {"scratch_bytes": 4 * 1024**4}, "scratch=4.0 TiB does not fit"),
    ],
)
async def test_a_layer_that_cannot_be_mounted_is_refused(
    node: ColdNode, modes: tuple[MountMode, ...], changes: dict[str, object], sentence: str
) -> None:
    async with node.keeper(), node.agent(*modes) as agent:
        request = scratch(node)

        async def refused() -> bool:
            with pytest.raises(VolumeError) as error:
                await agent.publisher.publish(replace(request, **changes))  # type: ignore[arg-type]
            return sentence in error.value.message

        await eventually_async(refused)
        assert layers(node) == []
