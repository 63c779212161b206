"""Volumes of pods with a user namespace: their mounts can be mapped as container runtimes do it (hostUsers: false)."""

import asyncio
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker_sidecar.linux import libc
from stoker_sidecar.linux.mounts import target_mounts
from tests.fakes.volumes import publish_request
from tests.support.csi_driver import FILES
from tests.support.csi_node import ColdNode, cold_node, running

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 12), reason="FUSE maps no users"),
]
FIRST = 100_000  # the host's user for the pod's root
_OPEN_TREE, _MOUNT_SETATTR, _AT_FDCWD, _CLONE, _EMPTY_PATH, _IDMAP = 428, 442, -100, 1, 0x1000, 0x0010_0000


@pytest.fixture
def node() -> Iterator[ColdNode]:
    with cold_node() as made:
        yield made


@contextmanager
def mapped(target: Path) -> Iterator[Path]:
    """Clone the mount at ``target`` with its users mapped, as runc does. Raises OSError if the kernel refuses."""
    with running("unshare", "--user", "sleep", "600") as process:
        theirs = Path(f"/proc/{process.pid}/ns/user")
        while theirs.readlink() == Path("/proc/self/ns/user").readlink():
            os.sched_yield()
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{name}").write_text(f"0 {FIRST} 65536\n")
        tree = libc.system_call(_OPEN_TREE, _AT_FDCWD, os.fsencode(target), _CLONE | os.O_CLOEXEC)
        users = os.open(theirs, os.O_RDONLY)
        attributes = struct.pack("QQQQ", _IDMAP, 0, 0, users)  # struct mount_attr
        try:
            libc.system_call(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH, attributes, len(attributes))
            yield Path(f"/proc/self/fd/{tree}")
        finally:
            os.close(users)
            os.close(tree)


def _read(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in FILES}


@pytest.mark.parametrize(("ephemeral", "complete"), [(True, False), (False, True), (True, True)])
async def test_a_runtime_can_map_the_volume_and_its_pod_reads(node: ColdNode, ephemeral: bool, complete: bool) -> None:
    if complete:
        node.complete()
    request = publish_request(target=node.request.target, ephemeral=ephemeral, user_namespace=True)
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(request)
        with mapped(request.target) as seen:
            assert await asyncio.to_thread(_read, seen) == FILES
            assert seen.stat().st_uid == request.target.stat().st_uid + FIRST
        assert "ro" in target_mounts.layers(request.target)[-1].options


async def test_the_kernel_maps_no_claim_of_a_pod_without_a_user_namespace(node: ColdNode) -> None:
    """The reason for these tests. If this fails, such pods can use overlays too."""
    node.complete()
    request = publish_request(target=node.request.target, ephemeral=False)
    async with node.agent() as agent:
        await agent.publisher.publish(request)
        with pytest.raises(OSError, match="Invalid argument"), mapped(request.target):
            pass
