"""Volumes whose first choice the kernel refuses: mapped users, and read-only layers of claims."""

import errno
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.volumes.user_namespaces import UserNamespaces
from tests.fakes.volumes import DIGEST, UID
from tests.support.cases import cases
from tests.support.fake_node import FUSE, TREE, VERSION, FakeNode, refused


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@cases("ephemeral, complete, stack", (True, False, [FUSE]), (True, True, [TREE]), (False, True, [FUSE]))
async def test_a_pod_with_a_user_namespace_gets_a_mount_that_the_kernel_can_map(
    node: FakeNode, ephemeral: bool, complete: bool, stack: list[Path]
) -> None:
    node.overlays.ready.add(VERSION)
    node.planned(complete=complete)
    await node.publisher.publish(node.request(ephemeral=ephemeral, user_namespace=True))
    assert node.stack() == stack


async def test_a_claim_moves_to_fuse_when_the_kubelet_maps_the_pods_users(node: FakeNode, tmp_path: Path) -> None:
    node.user_namespaces = UserNamespaces(tmp_path)
    node.restart()
    node.planned(complete=True)
    request = node.request(ephemeral=False)
    await node.publisher.publish(request)
    (tmp_path / request.pod_uid).mkdir()
    (tmp_path / request.pod_uid / "userns").touch()
    assert node.user_namespaces.look([request])
    assert await node.upkeep.reconcile(UID, DIGEST)
    assert node.stack() == [TREE, FUSE]


@pytest.mark.expected_logs("claims of versions in .* use FUSE")
async def test_a_claim_is_served_by_fuse_where_the_kernel_refuses_the_layer(node: FakeNode) -> None:
    node.mounts.refuses_layers = True
    await node.published(complete=True, ephemeral=False)
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE], MountMode.FUSE)
    assert await node.upkeep.reconcile(UID, DIGEST)  # not retried at each change


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EIO])
async def test_an_error_of_the_disk_is_no_refusal_of_the_layer(node: FakeNode, code: int) -> None:
    node.mounts.refuses_layers, node.mounts.code = True, code
    node.planned(complete=True)
    await refused(lambda: node.publisher.publish(node.request(ephemeral=False)))
    node.mounts.refuses_layers = False
    await node.publisher.publish(node.request(ephemeral=False))
    assert node.stack() == [TREE]


async def test_inline_volumes_need_no_layer(node: FakeNode) -> None:
    node.mounts.refuses_layers = True
    await node.published(complete=True)
    assert node.stack() == [TREE]
