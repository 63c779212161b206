"""Status changes that produce events, and changes that can wait."""

from typing import Any

from stoker_api.datasets.dataset_status import DatasetStatus, SkippedKeys
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.status.dataset_transitions import dataset_announcements, urgent
from stoker_operator.core.views.conditions import ConditionSet
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import NOW, V1, V2


def make_status(version: str = V1, speed: int = 0, **conditions: tuple[bool, str]) -> DatasetStatus:
    """Make a status with conditions such as warm=(True, "Warm")."""
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


LISTED: dict[str, Any] = {"listed": (True, "Listed")}
FAILED = make_status("", listed=(False, "BucketNotFound"))
HEALTHY, DEGRADED = make_status(degraded=(False, "Healthy")), make_status(degraded=(True, "DiskFull"))
WARMING = make_status(warm=(False, "Warming"))


@cases(
    "old, new, events",
    the_first_version=(make_status(""), make_status(V1, **LISTED), [("Normal", Reason.LISTED)]),
    a_later_version=(make_status(V1, **LISTED), make_status(V2, **LISTED), [("Normal", Reason.NEW_VERSION)]),
    a_listing_that_fails=(make_status(""), FAILED, [("Warning", Reason.BUCKET_NOT_FOUND)]),
    a_listing_that_still_fails=(FAILED, FAILED, []),
    degraded=(HEALTHY, DEGRADED, [("Warning", Reason.DISK_FULL)]),
    healthy_again=(DEGRADED, HEALTHY, [("Normal", Reason.HEALTHY)]),
    a_new_dataset_is_not_told_to_be_healthy=(DatasetStatus(), make_status("", degraded=(False, "Healthy")), []),
    a_blocked_deletion=(make_status(), make_status(deletion_blocked=(True, "InUse")), [("Warning", Reason.IN_USE)]),
    warming=(make_status(), WARMING, [("Normal", Reason.WARMING)]),
    warm=(WARMING, make_status(warm=(True, "Warm")), [("Normal", Reason.WARM)]),
    a_full_quota=(WARMING, make_status(warm=(False, "QuotaExceeded")), [("Warning", Reason.QUOTA_EXCEEDED)]),
)
def test_a_change_of_a_condition_is_told_once(
    old: DatasetStatus, new: DatasetStatus, events: list[tuple[str, str]]
) -> None:
    assert told(old, new) == events


def test_keys_that_cannot_be_files_are_a_warning_with_counts() -> None:
    skipped = (SkippedKeys(reason="TooLong", count=3),)
    new = make_status().model_copy(update={"skipped": skipped})
    assert [one.message for one in dataset_announcements(make_status(), new)] == [
        "3 keys cannot be files and are left out: 3 TooLong"
    ]
