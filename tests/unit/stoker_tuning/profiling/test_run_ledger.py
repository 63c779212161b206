"""Report lines add up to epochs, for any frequency of reports."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_client import TrainingReport
from stoker_tuning.profiling.run_ledger import MOST_MARKS, EpochTime, RunLedger
from stoker_tuning.reports.figures import MOST_RANKS
from stoker_tuning.reports.line import ReportLine, parse_line
from stoker_tuning.vocabulary import Split


def heard(*lines: tuple[float, ReportLine]) -> tuple[EpochTime, ...]:
    ledger = RunLedger()
    for now, line in lines:
        ledger.take(line, now)
    return ledger.epochs()


def steps(epochs: int, batches: int, wait: float, compute: float, **said: Any) -> list[tuple[float, ReportLine]]:
    """Return the lines of a program that reports after each step."""
    lines, now = [], 100.0
    for epoch in range(epochs):
        for batch in range(batches):
            now += wait + compute
            told = ReportLine(epoch=epoch, batch=batch, wait_seconds=wait, compute_seconds=compute, **said)
            lines.append((now, told))
    return lines


SECONDS = st.floats(0.001, 10.0)


@given(st.integers(1, 4), st.integers(2, 20), SECONDS, SECONDS)
def test_an_epochs_seconds_are_those_waited_and_computed(
    epochs: int, batches: int, wait: float, compute: float
) -> None:
    found = heard(*steps(epochs, batches, wait, compute, batch_size=8))
    assert len(found) == epochs
    for one in found:
        assert one.seconds == pytest.approx(one.waited + one.computed, rel=1e-6)
        assert [one.waited, one.computed, one.first] == pytest.approx([batches * wait, batches * compute, wait])
        assert one.items == batches * 8


class _Sent:
    """A report socket that records lines with the time of a manual clock."""

    def __init__(self) -> None:
        self.now = 50.0
        self.lines: list[tuple[float, ReportLine]] = []

    def __bool__(self) -> bool:
        return True

    def send(self, data: bytes) -> bool:
        self.lines.append((self.now, parse_line(data)))
        return True


@given(st.integers(1, 3), st.integers(2, 30), st.floats(0.01, 2.0), st.floats(0.01, 2.0))
def test_the_clients_lines_of_a_second_add_up_to_the_same(
    epochs: int, batches: int, wait: float, compute: float
) -> None:
    sent: Any = _Sent()
    report = TrainingReport(socket=sent, clock=lambda: sent.now, rank=0, world_size=1)

    def source() -> Any:
        for number in range(batches):
            sent.now += wait
            yield number

    for epoch in range(epochs):
        report.say(epoch=epoch)
        for _ in report.loader(source(), batch_size=4):
            sent.now += compute
    report.flush()
    found = heard(*sent.lines)
    assert sum(one.waited for one in found) == pytest.approx(epochs * batches * wait)
    assert sum(one.computed for one in found) == pytest.approx(epochs * batches * compute)
    assert found[0].seconds == pytest.approx(batches * (wait + compute), rel=0.01)
    assert found[0].items == batches * 4


def test_ranks_are_one_epoch_with_the_mean_of_their_waits_and_the_sum_of_their_items() -> None:
    def told(rank: int, wait: float) -> ReportLine:
        return ReportLine(rank=rank, epoch=0, batch=0, items=10, wait_seconds=wait, compute_seconds=1.0)

    (found,) = heard((2.0, told(0, 1.0)), (4.0, told(1, 3.0)))
    assert found == EpochTime(begin=0.0, end=4.0, waited=2.0, computed=1.0, first=2.0, items=20, progress=((1.0, 2.0),))


def test_progress_grows_to_the_end_and_is_bounded_however_much_is_said() -> None:
    (found,) = heard(*steps(1, 1000, 0.25, 0.25))
    assert len(found.progress) <= MOST_MARKS
    assert list(found.progress) == sorted(found.progress)
    assert found.progress[-1][0] == 1.0
    assert [seconds for _, seconds in found.progress] == pytest.approx([500 * share for share, _ in found.progress])


def test_validation_is_no_part_of_an_epochs_training() -> None:
    lines = steps(1, 4, 0.5, 0.5)
    validation = ReportLine(split=Split.VALIDATION, batch=0, wait_seconds=9.0, compute_seconds=9.0)
    assert heard(*lines, (200.0, validation)) == heard(*lines)


def test_who_says_nothing_of_seconds_has_no_epoch() -> None:
    assert heard((1.0, ReportLine(epoch=0, loss=0.5)), (2.0, ReportLine(epoch=1))) == ()


def test_an_epoch_has_begun_once_it_is_named() -> None:
    ledger = RunLedger()
    assert ledger.begun == 0
    for now, line in steps(1, 3, 0.1, 0.1):
        ledger.take(line, now)
    assert ledger.begun == 1
    ledger.take(ReportLine(epoch=1), 200.0)
    assert ledger.begun == 2


def test_more_ranks_than_a_pod_may_have_are_not_kept() -> None:
    ledger = RunLedger()
    for rank in range(MOST_RANKS + 5):
        ledger.take(ReportLine(rank=rank, items=1, wait_seconds=1.0), float(rank))
    assert ledger.epochs()[0].items == MOST_RANKS
