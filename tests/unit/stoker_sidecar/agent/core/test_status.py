"""The status of a node, and the changes that need a write."""

import json

from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.origin import NodeOrigin
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import NodeError, NodePhase
from stoker_api.node_caches.node_storage import CacheFolder, NodeMount
from stoker_api.node_caches.node_workload import EvidenceSource, NodeWorkload
from stoker_sidecar.agent.core.disk_figures import DiskFigures
from stoker_sidecar.agent.core.status import (
    is_urgent,
    mode_now,
    node_hardware,
    node_status,
    steady,
    steady_folders,
)
from stoker_sidecar.linux.hardware import DiskKind, Machine
from tests.support.cases import cases
from tests.unit.stoker_sidecar.agent.builders import GIB, ROW, facts


def test_columns_are_for_people() -> None:
    status = node_status(facts())
    assert (status.capacity, status.used, status.warming, status.dataset_count) == ("100.0 GiB", "1.0 GiB", "1/1", 1)


def test_what_a_new_plan_does_not_know_is_told_with_its_versions() -> None:
    found = {"u1": (), "u2": ("d1", "d2")}
    status = node_status(facts(leftovers=frozenset({"u1", "u2"}), plan=(), found=found))
    assert [(row.uid, row.phase, row.version, row.retained) for row in status.datasets] == [
        ("u1", NodePhase.WARMING, "d1", ()),
        ("u2", NodePhase.PENDING, "", ("d1", "d2")),
    ]


def test_what_was_found_is_told_within_bounds() -> None:
    many = {f"u{number}": ("d",) * 100 for number in range(5000)}
    status = node_status(facts(plan=(), rows={}, leftovers=frozenset(many), found=many))
    assert len(json.dumps(status.wire())) < 500_000


def test_a_planned_dataset_that_the_fetcher_has_not_mentioned_is_pending() -> None:
    assert node_status(facts(rows={})).datasets[0].phase is NodePhase.PENDING


def test_versions_of_a_planned_dataset_are_told_before_the_fetcher_has_opened_any() -> None:
    assert node_status(facts(rows={}, found={"u1": ("d1", "d2")})).datasets[0].retained == ("d1", "d2")


def _folders_condition(*folders: CacheFolder) -> tuple[str, str, str]:
    status = node_status(facts(folders=folders))
    found = next(one for one in status.conditions if one.type == ConditionType.CACHE_FOLDERS)
    return found.status, found.reason, found.message


def test_a_folder_out_of_service_is_a_condition_with_its_sentence() -> None:
    broken = CacheFolder(path="/b", healthy=False, message="the cache folder /b is out of service: Input/output error")
    good = CacheFolder(path="/a", available_bytes=1)
    assert _folders_condition(good, broken) == ("False", Reason.CACHE_DISK_FAILED, broken.message)


def test_folders_without_room_are_a_condition() -> None:
    assert _folders_condition(CacheFolder(path="/a"))[:2] == ("False", Reason.DISK_FULL)


def test_a_folder_with_room_is_enough() -> None:
    assert _folders_condition(CacheFolder(path="/a"), CacheFolder(path="/b", available_bytes=1))[0] == "True"


def test_free_space_that_hardly_moves_is_not_written_again() -> None:
    last = CacheFolder(path="/a", capacity_bytes=1000, available_bytes=500)
    now = last.model_copy(update={"available_bytes": 495})
    assert steady_folders([now], [last]) == (last,)


def test_a_leftover_is_cleaning_without_figures() -> None:
    status = node_status(facts(plan=(), leftovers=frozenset({"u1"})))
    assert [(row.uid, row.phase, row.warm_files) for row in status.datasets] == [("u1", NodePhase.CLEANING, 0)]


@cases(
    "version, phase, overlay, mode",
    ("", NodePhase.LISTING, True, None),
    ("d1", NodePhase.WARMING, False, MountMode.FUSE),
    ("d1", NodePhase.WARMING, True, MountMode.OVERLAY),
    ("d1", NodePhase.WARM, True, MountMode.NATIVE),
    ("d1", NodePhase.FULL, False, MountMode.FUSE),
)
def test_the_mode_is_native_only_when_every_byte_is_here(
    version: str, phase: NodePhase, overlay: bool, mode: MountMode | None
) -> None:
    modes = (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE) if overlay else (MountMode.NATIVE, MountMode.FUSE)
    assert mode_now(ROW.model_copy(update={"version": version, "phase": phase}), modes) == mode


def test_a_node_without_overlays_says_why() -> None:
    assert node_status(facts(modes_message="Linux 5.15 is too old")).modes_message == "Linux 5.15 is too old"


def test_a_version_that_got_no_overlay_is_told_with_its_dataset_and_reads_by_fuse() -> None:
    modes = (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)
    status = node_status(facts(modes=modes, refused={("u1", "d1"): "no room", ("u1", "d0"): "no luck"}))
    assert status.datasets[0].mode is MountMode.FUSE
    assert [word in status.modes_message for word in ("vision/digits gets no overlay", "no room", "no luck")] == [
        True
    ] * 3


def test_the_ready_condition_keeps_its_time_while_it_stays_the_same() -> None:
    first = node_status(facts())
    later = node_status(facts(now="2026-01-01T01:00:00Z"), first.conditions)
    assert later.conditions[0].last_transition_time == "2026-01-01T00:00:00Z"


def test_trouble_flips_the_ready_condition_with_its_sentence() -> None:
    first = node_status(facts())
    later = node_status(facts(trouble="The fetcher does not answer.", now="2026-01-01T01:00:00Z"), first.conditions)
    ready = later.conditions[0]
    assert (ready.status, ready.message, ready.last_transition_time) == (
        "False",
        "The fetcher does not answer.",
        "2026-01-01T01:00:00Z",
    )


def test_small_moves_of_the_free_space_are_not_told() -> None:
    last = DiskFigures(capacity=100 * GIB, used=GIB, available=50 * GIB)
    assert steady(DiskFigures(100 * GIB + 4096, GIB, 50 * GIB + 4096), last) == last


def test_what_the_cache_uses_is_told_though_the_free_space_stays() -> None:
    last = DiskFigures(capacity=100 * GIB, used=GIB, available=50 * GIB)
    assert steady(DiskFigures(100 * GIB, GIB + 1, 50 * GIB - 1), last) == DiskFigures(100 * GIB, GIB + 1, 50 * GIB)


def test_large_moves_of_the_free_space_are_told() -> None:
    now = DiskFigures(capacity=100 * GIB, used=GIB, available=40 * GIB)
    assert steady(now, DiskFigures(capacity=100 * GIB, used=GIB, available=50 * GIB)) == now


def test_the_first_figures_are_told() -> None:
    now = DiskFigures(capacity=100 * GIB, used=GIB, available=40 * GIB)
    assert steady(now, DiskFigures()) == now


@cases(
    "change", {"warm_files": 9}, {"warm_bytes": 99}, {"bytes_per_second": 5}, {"eta_seconds": 3}, {"fetched_files": 4}
)
def test_figures_are_not_urgent(change: dict[str, int]) -> None:
    assert not is_urgent(node_status(facts()), node_status(facts(rows={"u1": ROW.model_copy(update=change)})))


@cases(
    "change",
    {"phase": NodePhase.WARM},
    {"version": "d2"},
    {"error": NodeError(reason="AccessDenied", message="No.")},
    {"observed_generation": 2},
)
def test_what_others_wait_for_is_urgent(change: dict[str, object]) -> None:
    assert is_urgent(node_status(facts()), node_status(facts(rows={"u1": ROW.model_copy(update=change)})))


def test_rates_of_an_origin_are_not_urgent_and_a_slowdown_is() -> None:
    row = NodeOrigin(name="s3://bucket", fetching=True, bytes_per_second=1)
    faster = row.model_copy(update={"bytes_per_second": 2, "milli_requests_per_second": 3})
    slowed = row.model_copy(update={"throttled_at": "2026-11-23T12:00:00Z"})
    assert not is_urgent(node_status(facts(origins=(row,))), node_status(facts(origins=(faster,))))
    assert is_urgent(node_status(facts(origins=(row,))), node_status(facts(origins=(slowed,))))


def test_a_mount_is_urgent() -> None:
    mount = NodeMount(volume_id="v", dataset_namespace="vision", dataset="digits")
    assert is_urgent(node_status(facts()), node_status(facts(mounts=(mount,))))


def test_another_sentence_for_the_same_error_is_not_urgent() -> None:
    rows = [
        {"u1": ROW.model_copy(update={"error": NodeError(reason="Throttled", message=text)})} for text in ("1", "2")
    ]
    assert not is_urgent(node_status(facts(rows=rows[0])), node_status(facts(rows=rows[1])))


def test_what_holds_the_processes_is_told() -> None:
    assert node_status(facts()).confinement == "Landlock, version 7"


def test_who_reads_how_fast_is_a_figure_and_can_wait() -> None:
    row = NodeWorkload(pod="vision/trainer-0", source=EvidenceSource.FUSE, items_per_second=9)
    before, after = node_status(facts()), node_status(facts(workloads=(row,)))
    assert before != after
    assert not is_urgent(before, after)


def test_the_machine_and_the_best_rate_of_each_dataset_are_told() -> None:
    machine = Machine(memory=64 * GIB, cpus=32, gpus=8, network=10**9, disks=(("/cache", DiskKind.NVME),) * 20)
    status = node_status(facts(hardware=node_hardware(machine), rates={"u1": 4e7, "u9": 1.0}))
    assert (status.hardware.gpus, len(status.hardware.disks), status.hardware.disks[0].kind) == (8, 16, "NVMe")
    assert [row.best_source_bytes_per_second for row in status.datasets] == [40_000_000]


def test_a_rate_alone_is_no_reason_to_hurry() -> None:
    assert not is_urgent(node_status(facts()), node_status(facts(rates={"u1": 4e7})))
