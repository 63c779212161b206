"""Which changes of a status are told, and which can wait."""

from typing import Any

from stoker_api.dataset_status import DatasetStatus, SkippedKeys
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.conditions import ConditionSet
from stoker_operator.core.dataset_transitions import dataset_announcements, urgent
from tests.unit.stoker_operator.builders import NOW, V1, V2


def make_status(version: str = V1, speed: int = 0, **conditions: tuple[bool, str]) -> DatasetStatus:
    """Make a status with conditions given as warm=(True, "Warm")."""
    out = ConditionSet((), 1, NOW)
    for kind, (status, reason) in conditions.items():
        out.set(ConditionType[kind.upper()], status, reason, f"{kind} because {reason}")
    return DatasetStatus(version=version, bytes_per_second=speed, conditions=out.result())


def told(old: DatasetStatus, new: DatasetStatus) -> list[tuple[str, str]]:
    return [(one.type, one.reason) for one in dataset_announcements(old, new)]


def test_figures_alone_are_not_urgent_and_are_not_told() -> None:
    old, new = make_status(speed=1), make_status(speed=2)
    assert (urgent(old, new), told(old, new)) == (False, [])


def test_a_condition_or_version_that_changes_is_urgent() -> None:
    warming, warm = make_status(warm=(False, "Warming")), make_status(warm=(True, "Warm"))
    assert (urgent(warming, warm), urgent(warm, make_status(V2, warm=(True, "Warm")))) == (True, True)


def test_the_first_version_is_told_as_listed_and_later_ones_as_new() -> None:
    listed: dict[str, Any] = {"listed": (True, "Listed")}
    assert told(make_status(""), make_status(V1, **listed)) == [("Normal", Reason.LISTED)]
    assert told(make_status(V1, **listed), make_status(V2, **listed)) == [("Normal", Reason.NEW_VERSION)]


def test_a_listing_that_fails_is_a_warning_once() -> None:
    failed = make_status("", listed=(False, "BucketNotFound"))
    assert told(make_status(""), failed) == [("Warning", Reason.BUCKET_NOT_FOUND)]
    assert told(failed, failed) == []


def test_keys_that_cannot_be_files_are_a_warning_with_counts() -> None:
    skipped = (SkippedKeys(reason="TooLong", count=3),)
    new = make_status().model_copy(update={"skipped": skipped})
    assert [one.message for one in dataset_announcements(make_status(), new)] == [
        "3 keys cannot be files and are left out: 3 TooLong"
    ]


def test_degraded_is_told_and_so_is_its_end() -> None:
    healthy, degraded = make_status(degraded=(False, "Healthy")), make_status(degraded=(True, "DiskFull"))
    assert told(healthy, degraded) == [("Warning", Reason.DISK_FULL)]
    assert told(degraded, healthy) == [("Normal", Reason.HEALTHY)]


def test_a_new_dataset_is_not_told_to_be_healthy() -> None:
    assert told(DatasetStatus(), make_status("", degraded=(False, "Healthy"))) == []


def test_a_blocked_deletion_is_a_warning() -> None:
    blocked = make_status(deletion_blocked=(True, "InUse"))
    assert told(make_status(), blocked) == [("Warning", Reason.IN_USE)]


def test_warming_and_warm_are_told_and_a_full_quota_is_a_warning() -> None:
    warming = make_status(warm=(False, "Warming"))
    assert told(make_status(), warming) == [("Normal", Reason.WARMING)]
    assert told(warming, make_status(warm=(True, "Warm"))) == [("Normal", Reason.WARM)]
    assert told(warming, make_status(warm=(False, "QuotaExceeded"))) == [("Warning", Reason.QUOTA_EXCEEDED)]
