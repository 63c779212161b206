"""Goodput of a job: sums, missing measurements, and no pod counted twice."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.goodput import MOST_COUNTED, EndedPod, Goodput, goodput, saved_seconds
from tests.support.cases import cases

GIB = 2**30
NUMBERS = st.none() | st.integers(0, 2**50)
SECONDS = st.none() | st.floats(0, 1e7).map(lambda value: round(value, 2))


def pod(number: int = 0, **fields: Any) -> EndedPod:
    return EndedPod(pod=f"vision/ddp-{number}", uid=f"{number:08x}-0000", **fields)


def whole(number: int = 0, **fields: Any) -> EndedPod:
    """Make a pod with all measurements."""
    known: dict[str, Any] = {
        "gpus": 8,
        "mounted_seconds": 3600.0,
        "data_bytes": 100 * GIB,
        "warm_bytes": 100 * GIB,
        "origin_bytes": 0,
        "peer_bytes": 0,
        "watched_seconds": 1000.0,
        "stalled_seconds": 12.0,
        "stall_source": "report",
        "saved_seconds": 180.0,
    }
    return pod(number, **(known | fields))


@st.composite
def pods(draw: st.DrawFn) -> list[EndedPod]:
    numbers = draw(st.lists(st.integers(0, 50), unique=True, max_size=4))
    return [
        pod(
            number,
            gpus=draw(st.none() | st.integers(1, 16)),
            mounted_seconds=draw(SECONDS),
            data_bytes=draw(NUMBERS),
            warm_bytes=draw(NUMBERS),
            origin_bytes=draw(NUMBERS),
            peer_bytes=draw(NUMBERS),
            watched_seconds=draw(SECONDS),
            stalled_seconds=draw(SECONDS),
            saved_seconds=draw(SECONDS),
        )
        for number in numbers
    ]


FIGURES = (
    "data_bytes",
    "warm_bytes",
    "origin_bytes",
    "peer_bytes",
    "watched_seconds",
    "stalled_seconds",
    "gpu_hours",
    "saved_seconds",
    "saved_gpu_hours",
)


def figures(total: Goodput) -> dict[str, Any]:
    return {name: getattr(total, name) for name in FIGURES}


@settings(max_examples=40)
@given(pods())
def test_the_order_in_which_pods_end_does_not_matter(ended: list[EndedPod]) -> None:
    first = figures(goodput(None, ended))
    for order in permutations(ended):
        for name, value in figures(goodput(None, order)).items():
            assert value == (None if first[name] is None else pytest.approx(first[name], abs=0.01))


@given(pods(), pods())
def test_a_repeated_pod_does_not_count_again(first: list[EndedPod], later: list[EndedPod]) -> None:
    once = goodput(None, [*first, *later])
    assert goodput(goodput(once, later), first) == once
    assert once.pods == len(once.counted) == len({one.uid for one in (*first, *later)})


@given(pods())
def test_bytes_are_the_sum_of_measured_bytes_or_unknown(ended: list[EndedPod]) -> None:
    total = goodput(None, ended)
    known = [one.origin_bytes for one in ended if one.origin_bytes is not None]
    assert (total.origin_bytes, total.measured.origin) == (sum(known) if known else None, len(known))


@given(pods())
def test_shares_lie_between_nothing_and_all(ended: list[EndedPod]) -> None:
    total = goodput(None, ended)
    assert all(share is None or 0 <= share <= 1 for share in (total.warm_share, total.stall_share))


def test_an_unmeasured_figure_is_unknown_and_not_0() -> None:
    total = goodput(None, [pod()])
    assert set(figures(total).values()) == {None}
    assert total.message == "hold not measured, warm share not measured, stall and savings not measured"


@cases(
    "fields, words",
    ({"saved_seconds": None}, "stall and savings not measured (no stall source on node-1)"),
    ({}, "stall not measured (no stall source on node-1), saved about 0.8 GPU-hours"),
)
def test_the_text_names_why_a_stall_was_not_measured(fields: dict[str, Any], words: str) -> None:
    missing = {"watched_seconds": None, "stalled_seconds": None, "stall_missing": "no stall source on node-1"}
    assert words in goodput(None, [whole(gpus=16, **missing | fields)], [42.0]).message


def test_the_sentence_has_the_figures() -> None:
    total = goodput(None, [whole(0), whole(1)], [3.0, 42.0])
    assert total.message == "held 42s, 100 % warm at start, stalled 1.2 % of the time, saved about 0.8 GPU-hours"


def test_savings_without_gpus_are_time_of_pods() -> None:
    assert "saved about 3m of its pods' time" in goodput(None, [whole(gpus=None)]).message


def test_a_figure_is_of_those_pods_of_which_it_was_measured() -> None:
    total = goodput(None, [whole(0), whole(1, warm_bytes=None, watched_seconds=None)])
    assert (total.data_bytes, total.warm_share, total.measured.warm, total.pods) == (100 * GIB, 1.0, 1, 2)
    assert (total.watched_seconds, total.measured.stall) == (1000.0, 1)


def test_a_little_less_than_all_is_not_shown_as_all() -> None:
    assert "99 % warm" in goodput(None, [whole(warm_bytes=100 * GIB - 1)]).message


def test_the_longest_hold_counts_also_of_pods_that_are_gone() -> None:
    assert goodput(goodput(None, [], [42.0]), [], [7.0]).held_seconds == 42.0


def test_gpu_hours_are_gpus_times_hours() -> None:
    total = goodput(None, [whole(gpus=4, mounted_seconds=1800.0, saved_seconds=90.0)])
    assert (total.gpu_hours, total.saved_gpu_hours) == (2.0, 0.1)


@pytest.mark.parametrize(
    ("warm", "read", "rate", "seconds"),
    [
        (100, 1.0, 10.0, 10.0),
        (100, 0.5, 10.0, 5.0),
        (100, 7.0, 10.0, 10.0),  # epochs read the data again
        (0, 1.0, None, 0.0),
        (100, 1.0, None, None),
        (100, 1.0, 0.0, None),
    ],
)
def test_savings_are_warm_bytes_read_divided_by_the_rate(
    warm: int, read: float, rate: float | None, seconds: float | None
) -> None:
    assert saved_seconds(warm, read, rate) == seconds


def test_the_most_pods_of_a_job_stay_small() -> None:
    total = goodput(None, (whole(number) for number in range(MOST_COUNTED + 500)))
    assert total.pods == MOST_COUNTED
    assert len(total.model_dump_json()) < 32 * 1024
