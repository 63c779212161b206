"""The deadline for a warm Dataset."""

import pytest
from pydantic import ValidationError

from stoker_api.datasets.warm_deadline import WarmDeadline
from stoker_api.times import format_time, parse_time
from tests.support.cases import cases
from tests.support.present import present


def due(now: str, **deadline: str) -> str:
    found = present(WarmDeadline.model_validate(deadline).due(parse_time(now)))
    return format_time(found)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-11-23T06:59:59Z", "2026-11-23T07:00:00Z"),
        ("2026-11-23T07:00:00Z", "2026-11-24T07:00:00Z"),
        ("2026-03-28T12:00:00Z", "2026-03-29T06:00:00Z"),  # summer time starts that night
        ("2026-10-24T12:00:00Z", "2026-10-25T07:00:00Z"),  # summer time ends that night
    ],
)
def test_a_time_of_day_is_the_zones(now: str, expected: str) -> None:
    assert due(now, daily="08:00", timeZone="Europe/Berlin") == expected


@cases(
    "deadline, now, expected",
    at_a_time_of_day_that_a_clock_change_skips=(
        {"daily": "02:30", "timeZone": "Europe/Berlin"},
        "2026-03-28T12:00:00Z",
        "2026-03-29T01:30:00Z",
    ),
    in_utc_without_a_zone=({"daily": "08:00"}, "2026-11-23T12:00:00Z", "2026-11-24T08:00:00Z"),
    at_one_time=({"at": "2020-01-01T01:00:00+01:00"}, "2026-11-23T12:00:00Z", "2020-01-01T00:00:00Z"),
    at_one_time_in_small_letters=({"at": "2026-11-24t08:00:00z"}, "2026-11-23T12:00:00Z", "2026-11-24T08:00:00Z"),
)
def test_it_is_due(deadline: dict[str, str], now: str, expected: str) -> None:
    assert due(now, **deadline) == expected


@cases(
    "wrong",
    {"daily": "8:00"},
    {"daily": "24:00"},
    {"daily": "08:00", "timeZone": "Europe/Atlantis"},
    {"daily": "08:00", "timeZone": "../../etc/passwd"},
    {"at": "tomorrow"},
    {"at": "2026-11-23T08:00:00"},
    {"at": "9999-12-31T23:59:59-14:00"},
    {"at": "0001-01-01T00:00:00+14:00"},
    {"at": "2026-11-23T08:00:60Z"},
)
def test_what_is_no_time_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="write for example"):
        WarmDeadline.model_validate(wrong)
