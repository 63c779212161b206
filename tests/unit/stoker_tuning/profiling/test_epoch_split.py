"""The parts of an epoch's time, from runs and from looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.profiling.epoch_split import EpochSplit, LiveLook, ProfiledRun, RunFigures, epoch_split, live_split

SECONDS = st.floats(0.0, 1e5)
SHARES = st.floats(0.0, 1.0)
CACHED = RunFigures(12.0, waited=2.0, computed=10.0)
COLD = RunFigures(30.0, waited=20.0, computed=10.0)


@given(st.floats(0.01, 1e5), SECONDS, SECONDS)
def test_parts_of_runs_that_differ_by_their_stalls_alone_sum_up_to_the_epoch(
    compute: float, preparation: float, fetch: float
) -> None:
    cached = RunFigures(compute + preparation, preparation, compute)
    cold = RunFigures(compute + preparation + fetch, preparation + fetch, compute)
    split = epoch_split({ProfiledRun.CACHED: cached, ProfiledRun.COLD: cold})
    assert abs(split.sum_error) < 1e-6
    assert [split.compute, split.preparation] == pytest.approx([compute, preparation])
    assert split.fetch == pytest.approx(fetch, abs=1e-6 * (1 + preparation + fetch))


@given(st.floats(0.01, 1e5), SECONDS, SECONDS)
def test_whole_durations_give_the_same_parts_by_difference(compute: float, preparation: float, fetch: float) -> None:
    runs = {
        ProfiledRun.SYNTHETIC: RunFigures(compute),
        ProfiledRun.CACHED: RunFigures(compute + preparation),
        ProfiledRun.COLD: RunFigures(compute + preparation + fetch),
    }
    split = epoch_split(runs)
    assert split.by_difference
    assert abs(split.sum_error) < 1e-6


@given(st.builds(RunFigures, SECONDS, SECONDS, SECONDS), st.builds(RunFigures, SECONDS, SECONDS, SECONDS))
def test_no_part_is_below_zero_whatever_was_measured(cached: RunFigures, cold: RunFigures) -> None:
    split = epoch_split({ProfiledRun.CACHED: cached, ProfiledRun.COLD: cold})
    assert min(split.compute, split.preparation or 0.0, split.fetch or 0.0) >= 0


def test_what_is_in_no_part_is_the_sums_error() -> None:
    split = epoch_split({ProfiledRun.CACHED: CACHED, ProfiledRun.COLD: RunFigures(40.0, 20.0, 10.0)})
    assert split.sum_error == pytest.approx(-0.25)


def test_without_reports_and_synthetic_data_preparation_is_in_compute() -> None:
    split = epoch_split({ProfiledRun.CACHED: RunFigures(12.0), ProfiledRun.COLD: RunFigures(30.0)})
    assert split == EpochSplit(30.0, 12.0, None, 18.0, by_difference=True)


def test_computing_is_the_synthetic_runs_where_there_is_one() -> None:
    runs = {ProfiledRun.SYNTHETIC: RunFigures(8.0), ProfiledRun.CACHED: CACHED, ProfiledRun.COLD: COLD}
    assert epoch_split(runs).compute == 8.0


def test_nothing_cold_has_no_fetch() -> None:
    assert epoch_split({ProfiledRun.CACHED: CACHED}) == EpochSplit(12.0, 10.0, 2.0, None)


def test_a_split_without_the_cached_run_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the cached run"):
        epoch_split({ProfiledRun.COLD: COLD})


@given(st.lists(st.builds(LiveLook, SECONDS, SHARES, st.none() | SHARES, st.booleans()), min_size=1), st.floats(1, 1e4))
def test_live_parts_are_shares_of_the_time(looks: list[LiveLook], seconds: float) -> None:
    split = live_split(looks, seconds)
    assert split.parts_sum == pytest.approx(seconds)
    assert min(split.compute, split.preparation or 0.0, split.fetch or 0.0) >= -1e-6


def test_a_stall_while_reads_hardly_wait_is_preparation() -> None:
    split = live_split([LiveLook(100.0, 0.5, 0.1)], 60.0)
    assert [split.preparation, split.fetch] == pytest.approx([24.0, 6.0])


@pytest.mark.parametrize(("whole", "fetch"), [(True, 0.0), (False, 30.0)])
def test_where_nobody_tells_how_long_reads_wait_it_counts_whether_all_data_is_here(whole: bool, fetch: float) -> None:
    assert live_split([LiveLook(100.0, 0.5, None, whole)], 60.0).fetch == pytest.approx(fetch)


def test_a_split_without_a_look_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a look"):
        live_split([], 60.0)
