"""RFC 3339."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.times import format_time, parse_time
from tests.support.cases import cases


@cases(
    "precision, text",
    ("seconds", "2026-11-21T10:15:00Z"),
    ("milliseconds", "2026-11-21T10:15:00.250Z"),
    ("microseconds", "2026-11-21T10:15:00.250000Z"),
)
def test_a_time_is_written_in_utc(precision: Literal["seconds", "milliseconds", "microseconds"], text: str) -> None:
    assert format_time(1_795_256_100.25, precision) == text


@given(st.integers(min_value=0, max_value=2**33))
def test_a_written_time_reads_back_as_itself(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds


@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_what_is_no_time_is_the_epoch(text: str | None) -> None:
    assert parse_time(text) == 0.0
