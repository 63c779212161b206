"""Publishing and unpublishing volumes on a node in memory."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_storage import MountPhase
from stoker_sidecar.errors import VolumeCode
from stoker_sidecar.volumes.core.publish import PublishRequest, pending_row
from stoker_sidecar.volumes.mount_table import MountTable, UnknownMounts
from stoker_sidecar.volumes.publisher import FORGET_SECONDS, MOST_POD_VOLUMES
from tests.fakes.volumes import DIGEST, UID, node_dataset
from tests.support.fake_node import FUSE, TREE, VERSION, FakeNode, refused
from tests.support.waiting import eventually


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


async def test_a_complete_version_is_bound_natively_with_no_server(node: FakeNode) -> None:
    await node.published(complete=True)
    assert (node.stack(), node.keeper.served) == ([TREE], {})


async def test_an_incomplete_version_is_served_by_fuse(node: FakeNode) -> None:
    await node.published(complete=False)
    assert (node.stack(), node.keeper.served) == ([FUSE], {(UID, DIGEST): FUSE})


async def test_publishing_twice_mounts_once(node: FakeNode) -> None:
    node.planned(complete=True)
    for _ in range(2):
        await node.publisher.publish(node.request())
    assert node.stack() == [TREE]


async def test_two_calls_at_once_for_one_target_mount_once(node: FakeNode) -> None:
    node.planned(complete=True)
    await asyncio.gather(*(node.publisher.publish(node.request()) for _ in range(5)))
    assert node.stack() == [TREE]


async def test_another_dataset_at_a_target_in_use_is_refused(node: FakeNode) -> None:
    await node.published(complete=True)
    error = await refused(lambda: node.publisher.publish(node.request(dataset="other")))
    assert error.code is VolumeCode.ALREADY_EXISTS


async def test_a_pod_with_more_volumes_than_any_needs_is_refused_and_others_are_not(node: FakeNode) -> None:
    node.planned(complete=True)
    for number in range(MOST_POD_VOLUMES):
        await node.publisher.publish(node.request(pod=f"v{number}", pod_uid="greedy"))
    error = await refused(lambda: node.publisher.publish(node.request(pod="one-more", pod_uid="greedy")))
    assert (error.code, f"has {MOST_POD_VOLUMES} volumes" in error.message) == (VolumeCode.INVALID_ARGUMENT, True)
    await node.publisher.publish(node.request(pod="v0", pod_uid="greedy"))
    await node.publisher.publish(node.request(pod="other", pod_uid="other"))
    assert len(node.publisher.rows()) == MOST_POD_VOLUMES + 1


async def test_a_mounted_volume_keeps_its_version_when_the_plan_moves_on(node: FakeNode) -> None:
    await node.published(complete=True)
    node.plan.add(node_dataset(version="d2" * 32))
    await node.publisher.publish(node.request())
    assert (node.stack(), node.publisher.held_versions()) == ([TREE], {UID: (DIGEST,)})


async def test_a_dataset_that_is_not_in_the_plan_is_asked_for_and_mounted_when_given(node: FakeNode) -> None:
    node.versions.add(complete=True)
    seen: list[MountPhase] = []

    def operator_answers() -> None:
        seen.extend(row.phase for row in node.publisher.rows())
        node.plan.add(node_dataset())

    node.plan.script = [operator_answers]
    await node.publisher.publish(node.request())
    assert (seen, node.stack()) == ([MountPhase.PENDING], [TREE])


async def test_a_version_is_mounted_once_the_fetcher_keeps_it_and_as_it_then_is(node: FakeNode) -> None:
    node.planned(complete=True)
    node.plan.kept = set()
    seen: list[object] = []

    def fetcher_answers_after_it_made_room() -> None:
        seen.append((node.stack(), node.publisher.held_versions()))
        node.versions.add(complete=False)
        node.plan.kept = {VERSION}

    node.plan.script = [fetcher_answers_after_it_made_room]
    await node.publisher.publish(node.request())
    assert (seen, node.stack()) == ([([], {UID: (DIGEST,)})], [FUSE])


async def test_a_fetcher_that_does_not_answer_is_told_to_the_kubelet(node: FakeNode) -> None:
    node.planned(complete=True)
    node.plan.kept = set()
    error = await refused(lambda: node.publisher.publish(node.request()))
    assert error.code is VolumeCode.UNAVAILABLE
    assert "the fetcher of this node has not confirmed" in error.message


async def test_a_version_is_named_once_for_each_of_its_volumes(node: FakeNode) -> None:
    node.planned(complete=True)
    for pod in ("one", "two"):
        await node.publisher.publish(node.request(pod=pod))
    assert node.publisher.held_versions() == {UID: (DIGEST, DIGEST)}


async def test_nothing_is_kept_for_a_volume_that_is_gone(node: FakeNode) -> None:
    await node.published(complete=True)
    await node.publisher.unpublish(node.request().target)
    assert node.publisher.held_versions() == {}


async def test_a_wait_in_vain_ends_with_a_sentence_and_the_wish_stays(node: FakeNode) -> None:
    started = node.clock()
    error = await refused(lambda: node.publisher.publish(node.request()))
    assert error.code is VolumeCode.UNAVAILABLE
    assert "does not have it yet" in error.message
    assert node.clock() - started == 50
    assert [row.phase for row in node.publisher.rows()] == [MountPhase.PENDING]


async def test_a_wish_is_forgotten_when_the_kubelet_does_not_come_back(node: FakeNode) -> None:
    await refused(lambda: node.publisher.publish(node.request()))
    node.clock.now += FORGET_SECONDS
    assert node.publisher.rows() == ()


async def test_a_refusal_leaves_no_wish_behind(node: FakeNode) -> None:
    node.planned(complete=True)
    error = await refused(lambda: node.publisher.publish(node.request(pod_namespace="stranger")))
    assert (error.code, node.publisher.rows()) == (VolumeCode.PERMISSION_DENIED, ())


async def test_an_unpublish_during_the_wait_wins(node: FakeNode) -> None:
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


async def test_a_failed_mount_leaves_nothing_behind(node: FakeNode) -> None:
    node.planned(complete=False)
    node.mounts.refuses = True
    error = await refused(lambda: node.publisher.publish(node.request()))
    assert error.code is VolumeCode.INTERNAL
    assert "Operation not permitted" in error.message
    assert (node.keeper.served, node.publisher.rows(), node.request().target.exists()) == ({}, (), False)


async def test_a_keeper_that_refuses_is_told_to_the_kubelet(node: FakeNode) -> None:
    node.planned(complete=False)
    node.keeper.refuses = True
    error = await refused(lambda: node.publisher.publish(node.request()))
    assert "no /dev/fuse" in error.message


async def test_a_row_tells_the_mode(node: FakeNode) -> None:
    await node.published(complete=False)
    (row,) = node.publisher.rows()
    assert (row.phase, row.mode, row.version) == (MountPhase.MOUNTED, MountMode.FUSE, DIGEST)


async def test_unpublish_takes_off_every_layer_and_the_folder(node: FakeNode) -> None:
    await node.published(complete=False)
    node.versions.add(complete=True)
    await node.upkeep.reconcile(UID, DIGEST)
    await node.publisher.unpublish(node.request().target)
    assert (node.stack(), node.request().target.exists(), node.publisher.rows()) == ([], False, ())


async def test_unpublishing_what_was_never_published_succeeds(node: FakeNode) -> None:
    await node.publisher.unpublish(node.request().target)
    assert node.publisher.rows() == ()


async def test_unpublish_does_not_delete_a_folder_that_somebody_filled(node: FakeNode) -> None:
    target = node.request().target
    target.mkdir(parents=True)
    (target / "precious").touch()
    error = await refused(lambda: node.publisher.unpublish(target))
    assert error.code is VolumeCode.INTERNAL
    assert (target / "precious").exists()


async def test_the_server_lives_until_its_last_volume_is_gone(node: FakeNode) -> None:
    node.planned(complete=False)
    for pod in ("a", "b"):
        await node.publisher.publish(node.request(pod))
    await node.publisher.unpublish(node.request("a").target)
    after_first = dict(node.keeper.served)
    await node.publisher.unpublish(node.request("b").target)
    assert (after_first, node.keeper.served) == ({(UID, DIGEST): FUSE}, {})


async def test_a_kubelet_that_hangs_up_does_not_stop_a_mount_half_way(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.planned(complete=False)
    serving, go_on = asyncio.Event(), asyncio.Event()
    serve = node.keeper.serve

    async def slow(uid: str, digest: str, manifest: Path, version_dir: Path, mountpoint: Path) -> None:
        serving.set()
        await go_on.wait()
        await serve(uid, digest, manifest, version_dir, mountpoint)

    monkeypatch.setattr(node.keeper, "serve", slow)
    call = asyncio.ensure_future(node.publisher.publish(node.request()))
    await serving.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    await eventually(lambda: node.stack() == [FUSE])


async def test_a_slow_volume_does_not_hold_up_another(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.planned(complete=True)
    node.plan.add(node_dataset(name="slow", uid="u2", version=""))
    waiting, never = asyncio.Event(), asyncio.Event()

    async def wait(deadline: float) -> None:
        waiting.set()
        await never.wait()

    monkeypatch.setattr(node.plan, "wait_change", wait)
    slow = asyncio.ensure_future(node.publisher.publish(node.request("a", dataset="slow")))
    await waiting.wait()
    await node.publisher.publish(node.request("b"))
    slow.cancel()
    assert node.stack("b") == [TREE]


async def test_stats_of_an_unknown_volume_are_not_found(node: FakeNode) -> None:
    error = await refused(lambda: node.publisher.report("v", Path("some/path")))
    assert error.code is VolumeCode.NOT_FOUND


async def test_stats_tell_the_size_of_the_version(node: FakeNode) -> None:
    node.planned(complete=True)
    request = node.request()
    await node.publisher.publish(request)
    report = await node.publisher.report(request.volume_id, request.target)
    assert (report.files, report.bytes, report.trouble) == (3, 300, "")


async def test_every_change_of_the_rows_is_announced(node: FakeNode) -> None:
    await node.published(complete=True)
    after_publish = node.changes
    await node.publisher.unpublish(node.request().target)
    assert 0 < after_publish < node.changes


OTHER = ("other", "e5" * 32)


async def test_every_version_is_held_until_the_last_unknown_mount_is_unpublished(node: FakeNode) -> None:
    target = node.request("lost").target
    node.restart(UnknownMounts({target}, {VERSION, OTHER}))
    held = node.publisher.held_versions()
    await node.publisher.unpublish(target)
    assert (held, node.publisher.held_versions()) == ({UID: (DIGEST,), "other": ("e5" * 32,)}, {})


async def test_a_server_that_an_unknown_mount_may_need_stays_when_its_last_known_user_goes(node: FakeNode) -> None:
    node.planned(complete=False)
    node.restart(UnknownMounts({node.request("lost").target}, {VERSION}))
    await node.publisher.publish(node.request())
    await node.publisher.unpublish(node.request().target)
    assert node.keeper.served == {VERSION: FUSE}


async def test_a_metadata_layer_that_an_unknown_mount_may_need_stays(node: FakeNode) -> None:
    node.overlays.ready.add(VERSION)
    node.restart(UnknownMounts({node.request("lost").target}, {VERSION}))
    await node.upkeep.collect_layers()
    assert node.overlays.ready == {VERSION}


async def unnamed(node: FakeNode) -> PublishRequest:
    """Publish a volume, and replace its row by one rebuilt from mountinfo."""
    await node.published(complete=True)
    table = MountTable(node.folder / "mounts.json")
    (record,) = table.all()
    lost = replace(record.request, dataset_namespace="", dataset="", pod_namespace="", pod="")
    table.put(replace(record, request=lost, files=0, bytes=0))
    node.restart()
    return record.request


async def test_a_rebuilt_row_is_told_once_it_has_a_name(node: FakeNode) -> None:
    request = await unnamed(node)
    before = node.publisher.rows()
    told = pending_row(request).model_copy(update={"version": DIGEST})
    await node.upkeep.identify([told], {})
    (record,) = node.mounted.all()
    assert (before, record.request, record.files, node.publisher.rows()[0].pod) == ((), request, 3, "trainer-0")


async def test_the_kubelet_names_a_rebuilt_row_when_it_asks_again(node: FakeNode) -> None:
    request = await unnamed(node)
    await node.publisher.publish(request)
    assert [record.request for record in node.mounted.all()] == [request]
    assert node.stack() == [TREE]
