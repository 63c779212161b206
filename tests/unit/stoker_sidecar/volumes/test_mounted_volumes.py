"""Volumes whose mount changes under their pod.

Swapped to a better mode, covered when damaged, restored after a restart.
"""

from pathlib import Path
from typing import Any

import pytest

from stoker_api.datasets.dataset import MountMode
from tests.fakes.volumes import DIGEST, UID, node_dataset
from tests.support.fake_node import FUSE, OVERLAY, TREE, VERSION, FakeNode


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


async def test_a_completed_version_is_laid_over_fuse_and_the_server_stays_for_open_files(node: FakeNode) -> None:
    await node.published(complete=False)
    node.versions.add(complete=True)
    await node.upkeep.reconcile(UID, DIGEST)
    assert (node.stack(), node.keeper.served) == ([FUSE, TREE], {(UID, DIGEST): FUSE})
    assert node.publisher.rows()[0].mode is MountMode.NATIVE


@pytest.mark.parametrize("old", [MountMode.FUSE, MountMode.OVERLAY])
async def test_a_row_has_the_mode_that_the_pod_still_reads_in(node: FakeNode, old: MountMode) -> None:
    await node.published(complete=False)
    node.versions.add(complete=True)
    node.mounts.old_modes = {str(old)}
    await node.upkeep.reconcile(UID, DIGEST)
    assert node.publisher.rows()[0].mode is old


async def test_a_row_is_native_once_the_pods_container_has_started_again(node: FakeNode) -> None:
    await node.published(complete=False)
    node.versions.add(complete=True)
    node.mounts.old_modes = {"fuse"}
    await node.upkeep.reconcile(UID, DIGEST)
    node.mounts.old_modes.clear()
    changes = node.changes
    await node.upkeep.reconcile(UID, DIGEST)
    assert (node.publisher.rows()[0].mode, node.changes) == (MountMode.NATIVE, changes + 1)


async def test_a_promotion_happens_once(node: FakeNode) -> None:
    await node.published(complete=False)
    node.versions.add(complete=True)
    for _ in range(2):
        await node.upkeep.reconcile(UID, DIGEST)
    assert node.stack() == [FUSE, TREE]


async def test_an_incomplete_version_is_not_promoted(node: FakeNode) -> None:
    await node.published(complete=False)
    await node.upkeep.reconcile(UID, DIGEST)
    assert node.stack() == [FUSE]


@pytest.mark.expected_logs("stays on fuse")
async def test_a_promotion_that_fails_leaves_the_pod_on_fuse(node: FakeNode) -> None:
    await node.published(complete=False)
    node.versions.add(complete=True)
    node.mounts.refuses = True
    await node.upkeep.reconcile(UID, DIGEST)
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE], MountMode.FUSE)


async def test_a_restarted_agent_leaves_living_mounts_alone(node: FakeNode) -> None:
    await node.published(complete=False)
    node.restart()
    await node.upkeep.restore()
    assert (node.stack(), len(node.publisher.rows())) == ([FUSE], 1)


async def test_a_restarted_agent_shows_the_top_layer_where_the_last_one_could_not(node: FakeNode) -> None:
    await node.published(complete=False)
    node.restart()
    await node.upkeep.restore()
    assert node.mounts.followed == [node.request().pod_uid]


async def test_a_dead_mount_is_served_anew_on_top_where_running_containers_see_it(node: FakeNode) -> None:
    await node.published(complete=False)
    node.keeper.served.clear()
    node.mounts.dead.add(node.request().target)
    node.restart()
    await node.upkeep.restore()
    assert (node.stack(), node.keeper.served) == ([FUSE, FUSE], {(UID, DIGEST): FUSE})


async def test_a_dead_mount_of_a_version_that_is_complete_by_now_becomes_native(node: FakeNode) -> None:
    await node.published(complete=False)
    node.mounts.dead.add(node.request().target)
    node.versions.add(complete=True)
    node.restart()
    await node.upkeep.restore()
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE, TREE], MountMode.NATIVE)


@pytest.mark.expected_logs("mounting over the dead layer failed")
async def test_a_dead_layer_that_cannot_be_covered_is_taken_off_first(node: FakeNode) -> None:
    await node.published(complete=False)
    node.mounts.dead.add(node.request().target)
    node.mounts.refuses_over_dead = True
    await node.upkeep.restore()
    assert node.stack() == [FUSE]


async def test_a_volume_whose_mount_is_missing_is_mounted_again(node: FakeNode) -> None:
    await node.published(complete=True)
    node.mounts.stacks.clear()
    await node.upkeep.restore()
    assert node.stack() == [TREE]


async def test_a_volume_whose_pod_is_gone_is_forgotten_and_its_server_ended(node: FakeNode) -> None:
    await node.published(complete=False)
    node.mounts.stacks.clear()
    node.request().target.rmdir()
    await node.upkeep.restore()
    assert (node.publisher.rows(), node.keeper.served) == ((), {})


@pytest.mark.expected_logs("was not mounted again")
async def test_one_volume_that_cannot_be_restored_does_not_keep_others_from_it(node: FakeNode) -> None:
    node.planned(complete=True)
    other = node_dataset(name="other", uid="u2")
    node.plan.add(other)
    node.versions.add(complete=True, uid="u2")
    await node.publisher.publish(node.request("a"))
    await node.publisher.publish(node.request("b", dataset="other"))
    node.mounts.stacks.clear()
    del node.versions.versions[(UID, DIGEST)]
    await node.upkeep.restore()
    assert (node.stack("a"), len(node.stack("b"))) == ([], 1)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.expected_logs("was not mounted again")
async def test_a_dead_mount_is_mounted_again_when_its_version_comes_back(node: FakeNode, complete: bool) -> None:
    await node.published(complete=False)
    node.mounts.stacks.clear()
    node.versions.versions.clear()
    node.restart()
    await node.upkeep.restore()
    without = (await node.upkeep.reconcile(UID, DIGEST), node.stack())
    node.versions.add(complete=complete)
    assert (without, await node.upkeep.reconcile(UID, DIGEST)) == ((True, []), True)
    assert node.stack() == [TREE if complete else FUSE]


@pytest.mark.expected_logs("mounting over the dead layer failed", "was not mounted again")
async def test_a_dead_mount_that_is_refused_again_can_be_tried_again(node: FakeNode) -> None:
    await node.published(complete=False)
    node.mounts.stacks.clear()
    node.mounts.refuses = True
    await node.upkeep.restore()
    refused_again = await node.upkeep.reconcile(UID, DIGEST)
    node.mounts.refuses = False
    assert (refused_again, await node.upkeep.reconcile(UID, DIGEST), node.stack()) == (False, True, [FUSE])


async def test_publishing_again_over_a_dead_mount_heals_it(node: FakeNode) -> None:
    await node.published(complete=False)
    node.mounts.dead.add(node.request().target)
    await node.publisher.publish(node.request())
    assert not node.mounts.is_dead(node.request().target)


async def test_a_cold_volume_starts_on_fuse_and_a_metadata_layer_is_asked_for(node: FakeNode) -> None:
    await node.published(complete=False)
    await node.upkeep.reconcile(UID, DIGEST)
    assert (node.stack(), node.overlays.begun) == ([FUSE], [VERSION])


async def test_a_volume_is_swapped_to_the_overlay_when_its_layer_is_built(node: FakeNode) -> None:
    await node.published(complete=False)
    node.overlays.ready.add(VERSION)
    assert await node.upkeep.reconcile(UID, DIGEST)
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE, OVERLAY], MountMode.OVERLAY)


async def test_a_new_volume_takes_the_overlay_at_once_when_the_layer_is_there(node: FakeNode) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    assert (node.stack(), node.keeper.served) == ([OVERLAY], {VERSION: FUSE})


async def test_a_node_that_cannot_overlay_builds_no_layer(node: FakeNode) -> None:
    node.modes = (MountMode.NATIVE, MountMode.FUSE)
    node.restart()
    await node.published(complete=False)
    assert await node.upkeep.reconcile(UID, DIGEST)
    assert node.overlays.begun == []


async def test_an_overlay_that_is_refused_leaves_the_volume_on_fuse_for_good(node: FakeNode) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    node.overlays.refuses = True
    await node.publisher.publish(node.request())
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE], MountMode.FUSE)


async def test_the_native_mount_of_a_claim_cannot_be_made_writable(node: FakeNode) -> None:
    request = await node.published(complete=True, ephemeral=False)
    assert node.mounts.read_only == {request.target}


async def test_an_inline_volume_which_must_be_read_only_is_bound_directly(node: FakeNode) -> None:
    await node.published(complete=True, ephemeral=True)
    assert (node.stack(), node.mounts.read_only) == ([TREE], set())


async def test_a_claim_that_becomes_native_after_a_restart_cannot_be_made_writable(node: FakeNode) -> None:
    request = await node.published(complete=False, ephemeral=False)
    node.restart()
    node.versions.add(complete=True)
    await node.upkeep.reconcile(UID, DIGEST)
    assert node.mounts.read_only == {request.target}


async def test_an_overlay_becomes_native_and_stays_mounted_for_files_that_are_open(node: FakeNode) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    await node.upkeep.reconcile(UID, DIGEST)
    assert (node.stack(), list(node.overlays.shown), list(node.keeper.served)) == (
        [OVERLAY, TREE],
        [VERSION],
        [VERSION],
    )


async def test_the_overlay_and_its_server_live_until_the_last_volume_is_gone(node: FakeNode) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    for pod in ("a", "b"):
        await node.publisher.publish(node.request(pod))
    await node.publisher.unpublish(node.request("a").target)
    after_first = (list(node.overlays.shown), list(node.keeper.served))
    await node.publisher.unpublish(node.request("b").target)
    assert (after_first, node.overlays.shown, node.keeper.served) == (([VERSION], [VERSION]), {}, {})


async def test_a_native_volume_whose_version_turns_out_damaged_is_covered_by_what_can_still_read_it(
    node: FakeNode,
) -> None:
    await node.published(complete=True)
    node.versions.add(complete=False)
    await node.upkeep.reconcile(UID, DIGEST)
    assert (node.stack(), node.publisher.rows()[0].mode) == ([TREE, FUSE], MountMode.FUSE)


async def test_a_version_that_left_the_disk_keeps_its_mounts(node: FakeNode) -> None:
    await node.published(complete=True)
    node.versions.versions.clear()
    assert await node.upkeep.reconcile(UID, DIGEST)
    assert node.stack() == [TREE]


@pytest.mark.expected_logs("stays on fuse")
async def test_a_swap_that_is_refused_is_told_and_can_be_tried_again(node: FakeNode) -> None:
    await node.published(complete=False)
    node.versions.add(complete=True)
    node.mounts.refuses = True
    refused_at_first = await node.upkeep.reconcile(UID, DIGEST)
    node.mounts.refuses = False
    assert (refused_at_first, await node.upkeep.reconcile(UID, DIGEST)) == (False, True)


@pytest.mark.parametrize(("complete", "kept"), [(False, {VERSION}), (True, set())])
async def test_a_metadata_layer_is_removed_when_nobody_uses_it_and_the_version_is_whole(
    node: FakeNode, complete: bool, kept: set[tuple[str, str]]
) -> None:
    node.planned(complete=complete)
    node.overlays.ready.add(VERSION)
    await node.upkeep.collect_layers()
    assert node.overlays.ready == kept


async def test_a_metadata_layer_is_kept_under_an_overlay_whose_version_is_whole(node: FakeNode) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    await node.upkeep.collect_layers()
    assert node.overlays.ready == {VERSION}


async def test_an_overlay_that_no_volume_needs_is_taken_off_at_start(node: FakeNode) -> None:
    node.overlays.shown[VERSION] = (TREE, FUSE)
    node.keeper.served[VERSION] = FUSE
    await node.upkeep.restore()
    assert (node.overlays.shown, node.keeper.served) == ({}, {})


async def test_a_dead_overlay_is_mounted_anew_over_a_server_that_answers(node: FakeNode) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    node.keeper.served.clear()
    node.overlays.shown.clear()
    node.mounts.dead.add(node.request().target)
    node.restart()
    await node.upkeep.restore()
    assert (node.stack(), list(node.keeper.served), list(node.overlays.shown)) == (
        [OVERLAY, OVERLAY],
        [VERSION],
        [VERSION],
    )


async def test_a_mount_counts_as_served_once_its_server_answers(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    serve = node.keeper.serve

    async def slowly(*words: Any) -> None:
        seen.append(node.mounted.served())  # the keeper sets up the mount, and would revert other settings of it
        await serve(*words)

    monkeypatch.setattr(node.keeper, "serve", slowly)
    await node.published(complete=False)
    assert (seen, node.mounted.served()) == ([frozenset()], frozenset({(UID, DIGEST)}))
