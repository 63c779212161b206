"""Quantities and durations: valid values, and messages for invalid ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.meta import (
    MOST_BYTES,
    MOST_INT64,
    Condition,
    format_bytes,
    format_duration,
    parse_duration,
    parse_number,
    parse_quantity,
    shortened,
)
from tests.support.cases import cases


@cases("text, count", ("0", 0), ("512", 512), ("1k", 1000), ("1Ki", 1024), ("1.5Gi", 3 * 2**29), ("2T", 2 * 10**12))
def test_a_quantity_is_read_as_kubernetes_reads_it(text: str, count: int) -> None:
    assert parse_quantity(text) == count


@pytest.mark.parametrize("text", ["", "Gi", "-1", "1Gib", "1 000", "1e3", "0x10"])
def test_a_wrong_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 500Mi"):
        parse_quantity(text)


@cases("text, seconds", ("30s", 30), ("10m", 600), ("1h30m", 5400), ("1.5s", 1.5), ("200ms", 0.2))
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "-5s", "1d", "10 m"])
def test_a_wrong_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 30s"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**7))
def test_a_formatted_duration_reads_back_as_itself(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**40, "3.0 TiB")])
def test_bytes_are_shown_with_a_binary_unit(count: int, text: str) -> None:
    assert format_bytes(count) == text


@cases("text, value", ("100m", 0.1), ("2", 2), ("1e3", 1000), ("1.5Gi", 1.5 * 2**30), ("5k", 5000), (".5", 0.5))
def test_quantities_are_read_as_kubernetes_writes_them(text: str, value: float) -> None:
    assert float(parse_number(text)) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "abc", "1Xi", "1 Gi"])
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        parse_number(text)


@pytest.mark.parametrize("text", ["1025Pi", "10000P", "99999999999999999999999999"])
def test_more_bytes_than_can_be_counted_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is more than 1Ei"):
        parse_quantity(text)


def test_the_largest_quantity_is_taken() -> None:
    assert parse_quantity("1024Pi") == MOST_BYTES


@pytest.mark.parametrize("text", ["8761h", "99999999h", "1" * 30 + "s"])
def test_a_duration_of_more_than_a_year_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than a year: write 8760h or less"):
        parse_duration(text)


@cases("text, value", ("1e999999999", MOST_INT64), ("-1e999999999", -MOST_INT64), ("1e-999999999", 0), ("9E", 9e18))
def test_a_number_beyond_what_the_api_server_counts_is_its_end(text: str, value: float) -> None:
    assert float(parse_number(text)) == pytest.approx(value)


@given(st.text(max_size=80))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    try:
        number = parse_number(text)
    except ValueError:
        return
    assert abs(number) <= MOST_INT64


def test_a_text_is_cut_with_a_sign_that_it_was() -> None:
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab…")


def test_a_condition_cuts_the_words_of_others() -> None:
    condition = Condition(
        type="T", status="True", reason="R", message="x" * 10**6, last_transition_time="2026-01-01T00:00:00Z"
    )
    assert len(condition.message) == 32768
