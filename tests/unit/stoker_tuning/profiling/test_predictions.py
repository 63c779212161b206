"""Predictions for warm data, a known order or more workers, from any measurements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.profiling.predictions import InputPipeline, PredictedEpoch, predictions, seconds_with_workers

SECONDS = st.floats(0.01, 1e4)


@st.composite
def pipelines(draw: st.DrawFn) -> InputPipeline:
    """Return a pipeline whose times do not decrease from warm to cold."""
    compute, preparation, fetch = draw(SECONDS), draw(st.floats(0, 1e4)), draw(st.floats(0, 1e4))
    return InputPipeline(
        compute,
        warm=compute + preparation,
        cold=compute + preparation + fetch,
        first=draw(st.floats(0, 1)) * preparation,
        items=draw(st.none() | st.floats(1, 1e6)),
        transfer=draw(st.none() | SECONDS),
        cpu_seconds=draw(st.none() | SECONDS),
        cores=draw(st.none() | st.integers(1, 64)),
        workers=draw(st.none() | st.integers(1, 64)),
    )


def change(now: InputPipeline, name: str) -> PredictedEpoch:
    return next(one for one in predictions(now) if one.change == name)


@given(pipelines())
def test_nothing_is_faster_than_computing(now: InputPipeline) -> None:
    assert all(one.seconds >= now.compute * (1 - 1e-9) for one in predictions(now))


@given(pipelines())
def test_warm_data_takes_what_was_measured_of_it(now: InputPipeline) -> None:
    assert change(now, "data warm").seconds == pytest.approx(now.warm)


@given(pipelines(), st.floats(1, 8), st.floats(1, 8))
def test_more_workers_never_make_it_slower(now: InputPipeline, one: float, more: float) -> None:
    few, many = (max(seconds_with_workers(now, n).values()) for n in sorted((one, more)))
    assert many <= few + 1e-9


@given(pipelines())
def test_as_many_workers_as_now_take_as_long_as_now(now: InputPipeline) -> None:
    assert max(seconds_with_workers(now, 1.0).values()) == pytest.approx(now.warm)


@given(pipelines())
def test_a_rate_is_the_items_of_those_seconds(now: InputPipeline) -> None:
    for one in predictions(now):
        assert one.items_per_second == (None if now.items is None else pytest.approx(now.items / one.seconds))


def test_a_known_order_takes_no_less_than_its_bytes_at_full_bandwidth() -> None:
    found = change(InputPipeline(10.0, warm=12.0, cold=60.0, transfer=30.0), "cold, order known")
    assert (found.seconds, found.bound) == (30.0, "bandwidth")


def test_a_known_order_is_as_fast_as_warm_data_where_bandwidth_allows_it() -> None:
    found = change(InputPipeline(10.0, warm=12.0, cold=60.0, transfer=3.0), "cold, order known")
    assert (found.seconds, found.bound) == (12.0, "preparation")


def test_an_epoch_that_waits_for_its_first_batch_alone_is_bound_by_computing() -> None:
    assert change(InputPipeline(10.0, warm=12.0, first=2.0), "data warm").bound == "compute"


def test_workers_help_no_further_than_the_cores() -> None:
    found = change(InputPipeline(1.0, warm=12.0, cpu_seconds=20.0, cores=2, workers=4), "warm, 8 workers")
    assert (found.seconds, found.bound) == (10.0, "cores")


def test_computing_begins_with_the_first_batch_however_many_workers_there_are() -> None:
    found = change(InputPipeline(8.0, warm=12.0, first=2.0, workers=4), "warm, 8 workers")
    assert (found.seconds, found.bound) == (10.0, "compute")


def test_workers_are_predicted_in_multiples_where_nobody_says_how_many_there_are() -> None:
    assert "warm, 2 times the workers" in [one.change for one in predictions(InputPipeline(1.0, warm=12.0))]


def test_no_workers_are_predicted_from_durations_with_a_start_up_in_them() -> None:
    assert not [one for one in predictions(InputPipeline(1.0, warm=12.0, scalable=False)) if "workers" in one.change]
