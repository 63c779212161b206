"""Publishing, unpublishing, promoting and restoring volumes on a node in memory."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker_api.dataset import MountMode
from stoker_api.nodecache import MountPhase
from stoker_sidecar.core.publish import PublishRequest
from stoker_sidecar.csi.mounter import Mounter
from stoker_sidecar.csi.pending import FORGET_SECONDS
from stoker_sidecar.csi.publisher import Publisher
from stoker_sidecar.csi.sources import Sources
from stoker_sidecar.csi.table import JsonMountTable
from stoker_sidecar.errors import VolumeCode, VolumeError
from tests.fakes.csi import (
    DIGEST,
    UID,
    Clock,
    FakeKeeper,
    FakeMounts,
    FakeOverlays,
    FakePlan,
    FakeVersions,
    node_dataset,
    publish_request,
)
from tests.support.waiting import eventually


@dataclass
class Node:
    """A publisher and all that it works with; ``restart`` makes a new agent on the same node."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    versions: FakeVersions = field(default_factory=FakeVersions)
    keeper: FakeKeeper = field(default_factory=FakeKeeper)
    overlays: FakeOverlays = field(default_factory=FakeOverlays)
    mounts: FakeMounts = field(default_factory=FakeMounts)
    modes: tuple[MountMode, ...] = (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)
    changes: int = 0

    def __post_init__(self) -> None:
        self.plan = FakePlan(self.clock)
        self.restart()

    def restart(self) -> None:
        table = JsonMountTable(self.folder / "mounts.json")
        sources = Sources(self.keeper, self.overlays, table, Path("/mnt"), self.modes)
        mounter = Mounter(sources, self.mounts, table)
        self.publisher = Publisher(
            self.plan, self.versions, table, mounter, on_change=self._changed, clock=self.clock, wait_seconds=50
        )

    def _changed(self) -> None:
        self.changes += 1

    def request(self, pod: str = "trainer-0", **fields: object) -> PublishRequest:
        return publish_request(pod, target=self.folder / "pods" / pod / "mount", **fields)

    def planned(self, *, complete: bool) -> None:
        self.plan.add(node_dataset())
        self.versions.add(complete=complete)

    def stack(self, pod: str = "trainer-0") -> list[Path]:
        return self.mounts.layers(self.request(pod).target)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


TREE = Path(f"/cache/datasets/{UID}/versions/{DIGEST}/tree")
FUSE = Path(f"/mnt/{UID}/{DIGEST}")
OVERLAY = Path(f"/mnt/{UID}/{DIGEST}.overlay")
VERSION = (UID, DIGEST)


async def refused(call: Callable[[], object]) -> VolumeError:
    with pytest.raises(VolumeError) as caught:
        await call()  # type: ignore[misc]  # a coroutine function
    return caught.value


async def test_a_complete_version_is_bound_natively_with_no_server(node: Node) -> None:
    node.planned(complete=True)
    await node.publisher.publish(node.request())
    assert (node.stack(), node.keeper.served) == ([TREE], {})


async def test_an_incomplete_version_is_served_by_fuse(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    assert (node.stack(), node.keeper.served) == ([FUSE], {(UID, DIGEST): FUSE})


async def test_publishing_twice_mounts_once(node: Node) -> None:
    node.planned(complete=True)
    for _ in range(2):
        await node.publisher.publish(node.request())
    assert node.stack() == [TREE]


async def test_two_calls_at_once_for_one_target_mount_once(node: Node) -> None:
    node.planned(complete=True)
    await asyncio.gather(*(node.publisher.publish(node.request()) for _ in range(5)))
    assert node.stack() == [TREE]


async def test_another_dataset_at_a_target_in_use_is_refused(node: Node) -> None:
    node.planned(complete=True)
    await node.publisher.publish(node.request())
    error = await refused(lambda: node.publisher.publish(node.request(dataset="other")))
    assert error.code is VolumeCode.ALREADY_EXISTS


async def test_a_mounted_volume_keeps_its_version_when_the_plan_moves_on(node: Node) -> None:
    node.planned(complete=True)
    await node.publisher.publish(node.request())
    node.plan.add(node_dataset(version="d2" * 32))
    await node.publisher.publish(node.request())
    assert (node.stack(), node.publisher.held(UID)) == ([TREE], (DIGEST,))


async def test_a_dataset_that_is_not_in_the_plan_is_asked_for_and_mounted_when_given(node: Node) -> None:
    node.versions.add(complete=True)
    seen: list[MountPhase] = []

    def operator_answers() -> None:
        seen.extend(row.phase for row in node.publisher.rows())
        node.plan.add(node_dataset())

    node.plan.script = [operator_answers]
    await node.publisher.publish(node.request())
    assert (seen, node.stack()) == ([MountPhase.PENDING], [TREE])


async def test_a_wait_in_vain_ends_with_a_sentence_and_the_wish_stays(node: Node) -> None:
    started = node.clock()
    error = await refused(lambda: node.publisher.publish(node.request()))
    assert error.code is VolumeCode.UNAVAILABLE
    assert "was not given it yet" in error.message
    assert node.clock() - started == 50
    assert [row.phase for row in node.publisher.rows()] == [MountPhase.PENDING]


async def test_a_wish_is_forgotten_when_the_kubelet_does_not_come_back(node: Node) -> None:
    await refused(lambda: node.publisher.publish(node.request()))
    node.clock.now += FORGET_SECONDS
    assert node.publisher.rows() == ()


async def test_a_refusal_leaves_no_wish_behind(node: Node) -> None:
    node.planned(complete=True)
    error = await refused(lambda: node.publisher.publish(node.request(pod_namespace="stranger")))
    assert (error.code, node.publisher.rows()) == (VolumeCode.PERMISSION_DENIED, ())


async def test_an_unpublish_during_the_wait_wins(node: Node) -> None:
    node.versions.add(complete=True)
    request = node.request()
    unpublished: list[asyncio.Task[None]] = []

    def kubelet_gives_up() -> None:
        unpublished.append(asyncio.ensure_future(node.publisher.unpublish(request.target)))

    def operator_answers_late() -> None:
        node.plan.add(node_dataset())

    node.plan.script = [kubelet_gives_up, lambda: None, operator_answers_late]
    waiting = asyncio.ensure_future(node.publisher.publish(request))
    error = await refused(lambda: waiting)
    await unpublished[0]
    assert (error.code, node.stack(), node.publisher.rows()) == (VolumeCode.ABORTED, [], ())


async def test_a_failed_mount_leaves_nothing_behind(node: Node) -> None:
    node.planned(complete=False)
    node.mounts.refuses = True
    error = await refused(lambda: node.publisher.publish(node.request()))
    assert error.code is VolumeCode.INTERNAL
    assert "Operation not permitted" in error.message
    assert (node.keeper.served, node.publisher.rows(), node.request().target.exists()) == ({}, (), False)


async def test_a_keeper_that_refuses_is_told_to_the_kubelet(node: Node) -> None:
    node.planned(complete=False)
    node.keeper.refuses = True
    error = await refused(lambda: node.publisher.publish(node.request()))
    assert "no /dev/fuse" in error.message


async def test_a_row_tells_the_mode(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    (row,) = node.publisher.rows()
    assert (row.phase, row.mode, row.version) == (MountPhase.MOUNTED, MountMode.FUSE, DIGEST)


async def test_unpublish_takes_off_every_layer_and_the_folder(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    await node.publisher.settle(UID, DIGEST)
    await node.publisher.unpublish(node.request().target)
    assert (node.stack(), node.request().target.exists(), node.publisher.rows()) == ([], False, ())


async def test_unpublishing_what_was_never_published_succeeds(node: Node) -> None:
    await node.publisher.unpublish(node.request().target)
    assert node.publisher.rows() == ()


async def test_unpublish_does_not_delete_a_folder_that_somebody_filled(node: Node) -> None:
    target = node.request().target
    target.mkdir(parents=True)
    (target / "precious").touch()
    error = await refused(lambda: node.publisher.unpublish(target))
    assert error.code is VolumeCode.INTERNAL
    assert (target / "precious").exists()


async def test_the_server_lives_until_its_last_volume_is_gone(node: Node) -> None:
    node.planned(complete=False)
    for pod in ("a", "b"):
        await node.publisher.publish(node.request(pod))
    await node.publisher.unpublish(node.request("a").target)
    after_first = dict(node.keeper.served)
    await node.publisher.unpublish(node.request("b").target)
    assert (after_first, node.keeper.served) == ({(UID, DIGEST): FUSE}, {})


async def test_a_completed_version_is_laid_over_fuse_and_the_server_stays_for_open_files(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    await node.publisher.settle(UID, DIGEST)
    assert (node.stack(), node.keeper.served) == ([FUSE, TREE], {(UID, DIGEST): FUSE})
    assert node.publisher.rows()[0].mode is MountMode.NATIVE


async def test_a_promotion_happens_once(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    for _ in range(2):
        await node.publisher.settle(UID, DIGEST)
    assert node.stack() == [FUSE, TREE]


async def test_an_incomplete_version_is_not_promoted(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    await node.publisher.settle(UID, DIGEST)
    assert node.stack() == [FUSE]


async def test_a_promotion_that_fails_leaves_the_pod_on_fuse(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    node.mounts.refuses = True
    await node.publisher.settle(UID, DIGEST)
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE], MountMode.FUSE)


async def test_a_restarted_agent_leaves_living_mounts_alone(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.restart()
    await node.publisher.restore()
    assert (node.stack(), len(node.publisher.rows())) == ([FUSE], 1)


async def test_a_dead_mount_is_served_anew_on_top_where_running_containers_see_it(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.keeper.served.clear()
    node.mounts.dead.add(node.request().target)
    node.restart()
    await node.publisher.restore()
    assert (node.stack(), node.keeper.served) == ([FUSE, FUSE], {(UID, DIGEST): FUSE})


async def test_a_dead_mount_of_a_version_that_is_complete_by_now_becomes_native(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.mounts.dead.add(node.request().target)
    node.versions.add(complete=True)
    node.restart()
    await node.publisher.restore()
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE, TREE], MountMode.NATIVE)


async def test_a_dead_layer_that_cannot_be_covered_is_taken_off_first(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.mounts.dead.add(node.request().target)
    node.mounts.refuses_over_dead = True
    await node.publisher.restore()
    assert node.stack() == [FUSE]


async def test_a_volume_whose_mount_is_missing_is_mounted_again(node: Node) -> None:
    node.planned(complete=True)
    await node.publisher.publish(node.request())
    node.mounts.stacks.clear()
    await node.publisher.restore()
    assert node.stack() == [TREE]


async def test_a_volume_whose_pod_is_gone_is_forgotten_and_its_server_ended(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.mounts.stacks.clear()
    node.request().target.rmdir()
    await node.publisher.restore()
    assert (node.publisher.rows(), node.keeper.served) == ((), {})


async def test_one_volume_that_cannot_be_restored_does_not_keep_others_from_it(node: Node) -> None:
    node.planned(complete=True)
    other = node_dataset(name="other", uid="u2")
    node.plan.add(other)
    node.versions.add(complete=True, uid="u2")
    await node.publisher.publish(node.request("a"))
    await node.publisher.publish(node.request("b", dataset="other"))
    node.mounts.stacks.clear()
    del node.versions.versions[(UID, DIGEST)]
    await node.publisher.restore()
    assert (node.stack("a"), len(node.stack("b"))) == ([], 1)


async def test_publishing_again_over_a_dead_mount_heals_it(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.mounts.dead.add(node.request().target)
    await node.publisher.publish(node.request())
    assert not node.mounts.is_dead(node.request().target)


async def test_a_kubelet_that_hangs_up_does_not_stop_a_mount_half_way(node: Node) -> None:
    node.planned(complete=False)
    serving, go_on = asyncio.Event(), asyncio.Event()
    serve = node.keeper.serve

    async def slow(uid: str, digest: str, manifest: Path, version_dir: Path, mountpoint: Path) -> None:
        serving.set()
        await go_on.wait()
        await serve(uid, digest, manifest, version_dir, mountpoint)

    node.keeper.serve = slow  # type: ignore[method-assign]  # a keeper that takes its time
    call = asyncio.ensure_future(node.publisher.publish(node.request()))
    await serving.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    await eventually(lambda: node.stack() == [FUSE])


async def test_a_slow_volume_does_not_hold_up_another(node: Node) -> None:
    node.planned(complete=True)
    node.plan.add(node_dataset(name="slow", uid="u2", version=""))
    waiting, never = asyncio.Event(), asyncio.Event()

    async def wait(deadline: float) -> None:
        waiting.set()
        await never.wait()

    node.plan.wait_change = wait  # type: ignore[method-assign]  # a plan that never changes
    slow = asyncio.ensure_future(node.publisher.publish(node.request("a", dataset="slow")))
    await waiting.wait()
    await node.publisher.publish(node.request("b"))
    slow.cancel()
    assert node.stack("b") == [TREE]


async def test_stats_of_an_unknown_volume_are_not_found(node: Node) -> None:
    error = await refused(lambda: node.publisher.report("v", Path("some/path")))
    assert error.code is VolumeCode.NOT_FOUND


async def test_stats_tell_the_size_of_the_version(node: Node) -> None:
    node.planned(complete=True)
    request = node.request()
    await node.publisher.publish(request)
    report = await node.publisher.report(request.volume_id, request.target)
    assert (report.files, report.bytes, report.trouble) == (3, 300, "")


async def test_every_change_of_the_rows_is_announced(node: Node) -> None:
    node.planned(complete=True)
    await node.publisher.publish(node.request())
    after_publish = node.changes
    await node.publisher.unpublish(node.request().target)
    assert 0 < after_publish < node.changes


async def test_a_cold_volume_starts_on_fuse_and_a_metadata_layer_is_asked_for(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    await node.publisher.settle(UID, DIGEST)
    assert (node.stack(), node.overlays.begun) == ([FUSE], [VERSION])


async def test_a_volume_is_swapped_to_the_overlay_when_its_layer_is_built(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.overlays.ready.add(VERSION)
    assert await node.publisher.settle(UID, DIGEST)
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE, OVERLAY], MountMode.OVERLAY)


async def test_a_new_volume_takes_the_overlay_at_once_when_the_layer_is_there(node: Node) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    assert (node.stack(), node.keeper.served) == ([OVERLAY], {VERSION: FUSE})


async def test_a_node_that_cannot_overlay_builds_no_layer(node: Node) -> None:
    node.modes = (MountMode.NATIVE, MountMode.FUSE)
    node.restart()
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    assert await node.publisher.settle(UID, DIGEST)
    assert node.overlays.begun == []


async def test_an_overlay_that_is_refused_leaves_the_volume_on_fuse_for_good(node: Node) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    node.overlays.refuses = True
    await node.publisher.publish(node.request())
    assert (node.stack(), node.publisher.rows()[0].mode) == ([FUSE], MountMode.FUSE)


async def test_an_overlay_becomes_native_and_stays_mounted_for_files_that_are_open(node: Node) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    await node.publisher.settle(UID, DIGEST)
    assert (node.stack(), list(node.overlays.shown), list(node.keeper.served)) == (
        [OVERLAY, TREE],
        [VERSION],
        [VERSION],
    )


async def test_the_overlay_and_its_server_live_until_the_last_volume_is_gone(node: Node) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    for pod in ("a", "b"):
        await node.publisher.publish(node.request(pod))
    await node.publisher.unpublish(node.request("a").target)
    after_first = (list(node.overlays.shown), list(node.keeper.served))
    await node.publisher.unpublish(node.request("b").target)
    assert (after_first, node.overlays.shown, node.keeper.served) == (([VERSION], [VERSION]), {}, {})


async def test_a_native_volume_whose_version_turns_out_damaged_is_covered_by_what_can_still_read_it(node: Node) -> None:
    node.planned(complete=True)
    await node.publisher.publish(node.request())
    node.versions.add(complete=False)
    await node.publisher.settle(UID, DIGEST)
    assert (node.stack(), node.publisher.rows()[0].mode) == ([TREE, FUSE], MountMode.FUSE)


async def test_a_version_that_left_the_disk_keeps_its_mounts(node: Node) -> None:
    node.planned(complete=True)
    await node.publisher.publish(node.request())
    node.versions.versions.clear()
    assert await node.publisher.settle(UID, DIGEST)
    assert node.stack() == [TREE]


async def test_a_swap_that_is_refused_is_told_and_can_be_tried_again(node: Node) -> None:
    node.planned(complete=False)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    node.mounts.refuses = True
    refused_at_first = await node.publisher.settle(UID, DIGEST)
    node.mounts.refuses = False
    assert (refused_at_first, await node.publisher.settle(UID, DIGEST)) == (False, True)


@pytest.mark.parametrize(("complete", "kept"), [(False, {VERSION}), (True, set())])
async def test_a_metadata_layer_is_removed_when_nobody_uses_it_and_the_version_is_whole(
    node: Node, complete: bool, kept: set[tuple[str, str]]
) -> None:
    node.planned(complete=complete)
    node.overlays.ready.add(VERSION)
    await node.publisher.tidy()
    assert node.overlays.ready == kept


async def test_a_metadata_layer_is_kept_under_an_overlay_whose_version_is_whole(node: Node) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    node.versions.add(complete=True)
    await node.publisher.tidy()
    assert node.overlays.ready == {VERSION}


async def test_an_overlay_that_no_volume_needs_is_taken_off_at_start(node: Node) -> None:
    node.overlays.shown[VERSION] = (TREE, FUSE)
    node.keeper.served[VERSION] = FUSE
    await node.publisher.restore()
    assert (node.overlays.shown, node.keeper.served) == ({}, {})


async def test_a_dead_overlay_is_mounted_anew_over_a_server_that_answers(node: Node) -> None:
    node.planned(complete=False)
    node.overlays.ready.add(VERSION)
    await node.publisher.publish(node.request())
    node.keeper.served.clear()
    node.overlays.shown.clear()
    node.mounts.dead.add(node.request().target)
    node.restart()
    await node.publisher.restore()
    assert (node.stack(), list(node.keeper.served), list(node.overlays.shown)) == (
        [OVERLAY, OVERLAY],
        [VERSION],
        [VERSION],
    )
