"""Figures from a pod's lines: the last value, rates over a minute, and a bound for any number of lines."""

import math
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.reports.figures import MOST_LOSSES, MOST_RANKS, ReportFigures, ReportSummary, items_done
from stoker_tuning.reports.line import ReportLine
from stoker_tuning.vocabulary import ModelFileKind, Split, TrainingPhase
from tests.support.cases import cases


def told(*lines: tuple[float, ReportLine], at: float | None = None) -> ReportSummary:
    figures = ReportFigures()
    for when, line in lines:
        figures.add(line, when)
    return figures.summary(lines[-1][0] if at is None else at)


def steps(seconds: int, **each: Any) -> list[tuple[float, ReportLine]]:
    return [(float(second), ReportLine(step=second, **each)) for second in range(seconds + 1)]


def test_the_last_word_counts_and_what_a_line_leaves_out_stays() -> None:
    summary = told((0, ReportLine(epoch=1, epochs=90, loss=0.5)), (1, ReportLine(epoch=2)))
    assert (summary.epoch, summary.epochs, summary.loss) == (2, 90, "0.5")


def test_items_a_second_come_from_steps_and_the_batch_size() -> None:
    assert told(*steps(30, batch_size=256)).items_per_second == round(256 * 31 / 30)


def test_items_a_second_are_of_the_last_minute_alone() -> None:
    quick = [(float(second), ReportLine(items=1000)) for second in range(60)]
    slow = [(60.0 + second, ReportLine(items=10)) for second in range(120)]
    assert told(*quick, *slow).items_per_second == 10.2  # a new slot of five seconds


def test_items_a_second_are_of_the_present_phase_alone() -> None:
    slow = [(float(second), ReportLine(phase=TrainingPhase.INITIALIZATION, items=1)) for second in range(30)]
    quick = [(30.0 + second, ReportLine(phase=TrainingPhase.TRAINING, items=100)) for second in range(11)]
    assert told(*slow, *quick[:4]).items_per_second is None
    assert told(*slow, *quick).items_per_second == 110.0  # the first line is from its start


def test_the_stall_goes_on_through_a_change_of_phase() -> None:
    lines = [
        (float(second), ReportLine(phase=phase, wait_seconds=0.1, compute_seconds=0.3))
        for second, phase in enumerate([TrainingPhase.TRAINING] * 20 + [TrainingPhase.VALIDATION] * 2)
    ]
    assert told(*lines).stall_percent == 25


def test_phases_without_end_take_no_memory() -> None:
    figures = ReportFigures()
    for number in range(10_000):
        phase = (TrainingPhase.TRAINING, TrainingPhase.VALIDATION)[number % 2]
        figures.add(ReportLine(phase=phase), number / 1000)
    assert len(figures._slots) <= 70


def test_no_rate_is_told_before_five_seconds() -> None:
    assert told(*steps(4, items=10, wait_seconds=1.0)).items_per_second is None


def test_a_minute_of_silence_leaves_no_rate() -> None:
    summary = told(*steps(30, items=10, wait_seconds=0.5), at=200.0)
    assert (summary.items_per_second, summary.stall_percent, summary.age) == (None, None, 170.0)


@cases(
    "lines, percent",
    of_waiting_in_waiting_and_computing=(steps(20, wait_seconds=0.1, compute_seconds=0.3), 25),
    of_the_time_of_all_ranks_without_computing=(  # 40 waits in 39 seconds
        [(float(t), ReportLine(rank=rank, wait_seconds=0.5)) for t in range(40) for rank in (0, 1)],
        51,
    ),
    none_of_who_says_no_seconds=(steps(20, items=10), None),
)
def test_stall_is_a_share(lines: list[tuple[float, ReportLine]], percent: int | None) -> None:
    assert told(*lines).stall_percent == percent


def test_ranks_add_up_and_the_lowest_speaks() -> None:
    lines = [(float(t), ReportLine(rank=rank, items=10, epoch=rank)) for t in range(31) for rank in (3, 2)]
    summary = told(*lines)
    assert (summary.items_per_second, summary.epoch, summary.ranks) == (20.7, 2, 2)


@cases(
    "lines, phase",
    of_who_counts_batches_and_names_none=([ReportLine(batch=0)], "Training"),
    by_its_split=([ReportLine(step=1), ReportLine(split=Split.VALIDATION)], "Validation"),
    until_another_is_named=([ReportLine(phase=TrainingPhase.VALIDATION), ReportLine(batch=7)], "Validation"),
)
def test_a_phase_is_known(lines: list[ReportLine], phase: str) -> None:
    assert told(*enumerate(lines)).phase == phase


def test_a_new_epoch_counts_its_batches_from_the_beginning() -> None:
    assert items_done(ReportLine(batch=99, batch_size=8), ReportLine(batch=1)) == 8


def test_the_last_checkpoint_is_told_with_its_kind() -> None:
    summary = told((0, ReportLine(loaded="/a.pt")), (1, ReportLine(saved="/b.pt", kind=ModelFileKind.OPTIMIZER)))
    assert summary.checkpoint == "saved /b.pt (Optimizer)"


def test_a_loss_that_is_no_number_is_told() -> None:
    assert told((0, ReportLine(loss=math.nan))).loss == "nan"


def test_a_hundred_losses_are_kept() -> None:
    figures = ReportFigures()
    for number in range(500):
        figures.add(ReportLine(loss=float(number)), float(number))
    assert figures.losses == tuple(float(number) for number in range(500 - MOST_LOSSES, 500))
    assert figures.summary(500.0).mean_loss == "449.5"


def test_ranks_beyond_the_bound_are_refused() -> None:
    figures = ReportFigures()
    for rank in range(MOST_RANKS + 5):
        figures.add(ReportLine(rank=rank, epoch=1), 0.0)
    summary = figures.summary(0.0)
    assert (summary.ranks, summary.refused) == (MOST_RANKS, 5)
    assert "more than 64 ranks" in summary.problem


def test_what_was_refused_is_counted_and_told() -> None:
    figures = ReportFigures()
    figures.refuse("'epoch' is -1")
    assert (figures.summary(0.0).refused, figures.summary(0.0).problem) == (1, "'epoch' is -1")


def test_fields_that_are_left_out_are_told() -> None:
    assert "'epcoh'" in told((0, ReportLine(epoch=1, unknown=("'epcoh'",)))).problem


FINITE = st.one_of(st.none(), st.floats(0, 86_400))
COUNTS = st.one_of(st.none(), st.integers(0, 2**53 - 1))
LINES = st.builds(
    ReportLine,
    step=COUNTS,
    batch=COUNTS,
    batch_size=st.one_of(st.none(), st.integers(1, 10**9)),
    items=st.one_of(st.none(), st.integers(0, 10**9)),
    loss=st.one_of(st.none(), st.floats()),
    wait_seconds=FINITE,
    compute_seconds=FINITE,
    rank=st.integers(0, 100),
)


@given(st.lists(st.tuples(LINES, st.floats(0, 30)), max_size=30))
def test_figures_stay_within_their_bounds_whatever_is_said(said: list[tuple[ReportLine, float]]) -> None:
    figures, now = ReportFigures(), 0.0
    for line, pause in said:
        now += pause
        figures.add(line, now)
        summary = figures.summary(now)
        assert summary.stall_percent is None or 0 <= summary.stall_percent <= 100
        assert summary.items_per_second is None or summary.items_per_second >= 0
        assert max(len(summary.loss), len(summary.mean_loss)) <= 40


NO_WAIT, HALF = ReportLine(wait_seconds=0.0), ReportLine(wait_seconds=1.0, compute_seconds=1.0)
WAITS = [(0.0, 2.0, 3.0), (5.0, 1.0, 4.0), (10.0, 0.0, 5.0)]  # second, waited, computed


@cases(
    "lines, waits",
    waits_and_computing=(
        [(at, ReportLine(wait_seconds=wait, compute_seconds=other)) for at, wait, other in WAITS],
        (3.0, 15.0),
    ),
    waits_alone=([(at, ReportLine(wait_seconds=wait)) for at, wait, _ in WAITS], (3.0, 12.0)),
    from_the_first_line=([(0.0, ReportLine(epoch=1)), (10.0, ReportLine(wait_seconds=3.0))], (3.0, 10.0)),
    lines_without_waits_between=(
        [(0.0, NO_WAIT), (9.0, ReportLine(loss=1.0)), (10.0, ReportLine(wait_seconds=3.0))],
        (3.0, 10.0),
    ),
    ranks=([(at, replace(HALF, rank=rank)) for at in (0.0, 2.0) for rank in (0, 1)], (4.0, 8.0)),
    no_waits=(steps(20, items=10), (0.0, 0.0)),
)
def test_waits_are_summed_up_over_the_whole_run(lines: Any, waits: tuple[float, float]) -> None:
    summary = told(*lines)
    assert (summary.waited, summary.watched) == waits


def test_waits_do_not_end_with_the_minute() -> None:
    summary = told(*steps(600, wait_seconds=0.25, compute_seconds=0.75), at=2000.0)
    assert (summary.stall_percent, summary.waited, summary.watched) == (None, 150.25, 601.0)
