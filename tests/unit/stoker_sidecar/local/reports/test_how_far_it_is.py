"""The progress messages of `stoker mount`, and when it is done."""

import io
import json
from typing import Any

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_sidecar.local.commands.mounting import is_done
from stoker_sidecar.local.reports.report import Report, Stage, mounted_line, progress_event, progress_line
from stoker_sidecar.local.reports.terminal import PlainOutput
from tests.support.cases import cases

MIB = 1024 * 1024
FAILURE = {"reason": "AccessDenied", "message": "no rights to a.bin", "temporary": False}


def row(**fields: Any) -> NodeDatasetStatus:
    figures = {"files": 4, "bytes": 4 * MIB, "warmFiles": 1, "warmBytes": MIB, "phase": "Warming"}
    return NodeDatasetStatus.model_validate({"namespace": "n", "name": "d", "uid": "u"} | figures | fields)


def report(stage: Stage = Stage.MOUNTED, mode: MountMode = MountMode.FUSE, **fields: Any) -> Report:
    return Report(stage=stage, mode=mode, row=row(**fields))


WARM: dict[str, Any] = {"phase": "Warm", "warmFiles": 4, "warmBytes": 4 * MIB}


def test_a_line_has_files_bytes_speed_and_time_left() -> None:
    line = progress_line(report(bytesPerSecond=MIB, etaSeconds=3))
    assert line == "fetching: 1 of 4 files, 1.0 MiB of 4.0 MiB, 1.0 MiB/s, 3s left"


def test_what_is_wrong_for_now_is_in_the_line() -> None:
    assert "no rights to a.bin" in progress_line(report(error=FAILURE))


def test_before_the_listing_there_are_no_figures() -> None:
    assert progress_line(report(Stage.LISTING)) == "listing the source"


def test_a_listing_tells_how_many_objects_it_has_found() -> None:
    assert progress_line(Report(stage=Stage.LISTING, listed=3000)) == "listing the source: 3000 objects so far"


def test_a_script_gets_flat_figures() -> None:
    event = progress_event(report(version="abc"))
    assert event == {
        "stage": "mounted",
        "warm": False,
        "listed": 0,
        "mode": "fuse",
        "version": "abc",
        "files": 4,
        "bytes": 4 * MIB,
        "warmFiles": 1,
        "warmBytes": MIB,
        "fetchedFiles": 0,
        "bytesPerSecond": 0,
    }


def test_the_last_line_says_how_it_is_mounted() -> None:
    sentence = mounted_line("s3://b/p", "/data", report(mode=MountMode.NATIVE, **WARM))
    assert sentence == "s3://b/p is mounted at /data (native): 4 files, 4.0 MiB, all on this disk"


def test_lines_tell_a_new_stage_at_once_and_the_same_one_rarely() -> None:
    out = io.StringIO()
    lines = PlainOutput(as_json=False, out=out)
    for shown in (report(Stage.LISTING), report(Stage.LISTING), report(), report(warmFiles=2)):
        lines.show(shown)
    assert [line.partition(":")[2].split(":")[0].strip() for line in out.getvalue().splitlines()] == [
        "listing the source",
        "fetching",
    ]


def test_scripts_get_one_object_a_line() -> None:
    out = io.StringIO()
    PlainOutput(as_json=True, out=out).say("a sentence", report(**WARM))
    assert json.loads(out.getvalue())["warm"] is True


@pytest.mark.parametrize("stage", [Stage.STARTING, Stage.LISTING, Stage.MOUNTING])
def test_nothing_is_done_before_the_mount(stage: Stage) -> None:
    assert not is_done(report(stage), warm=False, swap_over=False)


def test_bytes_that_are_missing_are_waited_for() -> None:
    assert not is_done(report(), warm=True, swap_over=False)


@cases(
    "shown, warm, swap_over",
    at_once_if_it_need_not_be_warm=(report(), False, False),
    when_it_is_warm_and_native=(report(mode=MountMode.NATIVE, **WARM), True, False),
    in_the_end_if_it_cannot_be_swapped=(report(**WARM), True, True),
)
def test_a_mount_is_done(shown: Report, warm: bool, swap_over: bool) -> None:
    assert is_done(shown, warm=warm, swap_over=swap_over)


@cases("fields", {"phase": "Full"}, {"error": {"reason": "QuotaExceeded", "message": "keeps 2", "temporary": False}})
def test_a_full_quota_is_as_warm_as_it_gets(fields: dict[str, Any]) -> None:
    full = report(**fields)
    assert is_done(full, warm=True, swap_over=False)
    assert not full.stuck
    assert "the quota or the disk is full" in mounted_line("s3://b/p", "/data", full)


def test_an_error_that_stays_is_no_reason_to_wait() -> None:
    assert report(error=FAILURE).stuck == "no rights to a.bin"


def test_an_error_that_may_pass_is_waited_out() -> None:
    assert report(error=FAILURE | {"temporary": True}).stuck == ""


REFUSED = {"reason": "UnreadableObjects", "message": "1 of 4 objects cannot be read, such as: a", "temporary": False}


def test_a_mount_is_done_when_only_unreadable_objects_are_missing_and_says_so() -> None:
    settled = report(phase="Full", error=REFUSED)
    assert is_done(settled, warm=True, swap_over=False)
    line = mounted_line("s3://b/p", "/data", settled)
    assert line.endswith("4 files, 4.0 MiB, 1.0 MiB on this disk; 1 of 4 objects cannot be read, such as: a")


def test_unreadable_objects_do_not_end_a_mount_that_is_still_warming() -> None:
    warming = report(error=REFUSED)
    assert (warming.stuck, is_done(warming, warm=True, swap_over=False)) == ("", False)


def test_a_listing_that_waits_for_its_source_says_so() -> None:
    waiting = {"id": "1", "error": {"reason": "Throttled", "message": "it waits since 10:00:00 UTC"}}
    line = progress_line(report(Stage.LISTING, files=0, bytes=0, listing=waiting))
    assert line == "listing the source: it waits since 10:00:00 UTC"


SKIPPED = [{"reason": "DotSegment", "count": 2, "example": "a/../b"}, {"reason": "EmptySegment", "count": 1}]
UNLISTED = [{"reason": "Unreadable", "count": 3, "example": "lost+found/"}]


def listed(*skipped: dict[str, Any], version: str = "v") -> dict[str, Any]:
    return {"version": "v", "listing": {"id": "1", "version": version, "skipped": skipped}}


@pytest.mark.parametrize("fields", [WARM, {"phase": "Idle"}])
def test_the_last_line_counts_the_keys_that_cannot_be_files(fields: dict[str, Any]) -> None:
    line = mounted_line("s3://b/p", "/data", report(**listed(*SKIPPED), **fields))
    assert line.endswith('; 3 keys cannot be files and are left out: 2 DotSegment (such as "a/../b"), 1 EmptySegment')


def test_the_last_line_counts_the_folders_that_cannot_be_listed() -> None:
    line = mounted_line("file:///a", "/data", report(**listed(*UNLISTED), **WARM))
    assert line.endswith(
        '; 3 folders or files cannot be listed and are left out, such as "lost+found/": grant read access, or name '
        "them in --exclude"
    )


def test_keys_are_counted_also_where_the_figures_are_not_known_yet() -> None:
    line = mounted_line("s3://b/p", "/data", report(files=0, **listed(*SKIPPED)))
    assert line.startswith("s3://b/p is mounted at /data (fuse); 3 keys cannot be files and are left out")


def test_what_another_listing_left_out_is_not_of_this_mount() -> None:
    assert "left out" not in mounted_line("s3://b/p", "/data", report(**listed(*SKIPPED, version="w"), **WARM))


def test_a_script_is_told_of_what_is_left_out_and_of_what_cannot_be_read() -> None:
    event = progress_event(report(phase="Full", error=REFUSED, **listed(*SKIPPED)))
    assert event["skipped"] == [SKIPPED[0], SKIPPED[1] | {"example": ""}] or event["skipped"] == SKIPPED
    assert event["unreadable"] == REFUSED["message"]


@cases(
    "fields, incomplete",
    (WARM, False),
    (WARM | listed(*SKIPPED), False),
    (WARM | listed(*UNLISTED), True),
    ({"phase": "Full", "error": REFUSED}, True),
    ({"phase": "Full"}, False),
)
def test_a_mount_is_incomplete_without_files_that_cannot_be_read(fields: dict[str, Any], incomplete: bool) -> None:
    assert report(**fields).incomplete is incomplete


@pytest.mark.parametrize("reason", ["ObjectGone", "SourceChanged"])
def test_an_object_that_changed_after_the_listing_costs_only_itself(reason: str) -> None:
    error = {"reason": reason, "message": "s3://b/p/a was deleted after the listing", "temporary": False}
    settled = report(phase="Failed", error=error)
    assert (settled.stuck, is_done(settled, warm=True, swap_over=False), settled.incomplete) == ("", True, True)
    assert mounted_line("s3://b/p", "/data", settled).endswith("on this disk; s3://b/p/a was deleted after the listing")


def test_where_every_object_is_gone_nothing_is_waited_for() -> None:
    error = {"reason": "ObjectGone", "message": "a is gone", "temporary": False}
    assert report(phase="Failed", warmFiles=0, error=error).stuck == "a is gone"
