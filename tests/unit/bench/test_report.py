"""What the benchmarks' report says of given rows."""

import pytest

from bench.page import markdown
from bench.report import (
    Cost,
    Machine,
    Report,
    Row,
    combined,
    cost_in_words,
    from_json,
    number,
    ratio,
    spread,
    table,
    to_json,
)
from bench.targets import Reason, Target, Verdict

IDLE = Machine("6.18.44", 2, 24, "3.11.7", "ext4", load_before=0.1)
BUSY = Machine("6.18.44", 2, 24, "3.11.7", "ext4", load_before=5.0)
NATIVE = Row("B1", "1 reader", "native", "files/s", (1000.0, 800.0, 1200.0), "native")
COST = Cost(cpu=1.5, server_cpu=0.5, gets=1000, sent=2_000_000, peak_rss=206_000_000)
OURS = Row("B1", "1 reader", "Stoker native", "files/s", (950.0,), "native", "read-only", (COST,))
TARGET = Target("b1", "B1", "as fast as the disk", 0.95, True, "files/s", of_ratio=True)
MISSED = Verdict(TARGET, 0.5, "1 reader")


def page(*verdicts: Verdict, machine: Machine = IDLE, picture: str = "", **reasons: Reason) -> str:
    return markdown(report(machine), verdicts, reasons, picture)


def report(machine: Machine = IDLE) -> Report:
    return Report("python -m bench run", machine, (NATIVE, OURS))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.123, "0.12"),
        (9.999, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234.5, "1,234"),
        (2e6, "2,000,000"),
    ],
)
def test_numbers_have_three_digits_and_no_more(value: float, text: str) -> None:
    assert number(value) == text


def test_several_samples_show_their_median_between_the_extremes() -> None:
    assert spread((3.0, 1.0, 20.0)) == "3.00 (1.00-20.0)"


def test_a_single_sample_has_no_spread() -> None:
    assert spread((3.0,)) == "3.00"


def test_a_ratio_is_between_medians_of_one_case() -> None:
    assert ratio(OURS, [NATIVE, OURS]) == 0.95


def test_the_reference_itself_has_no_ratio() -> None:
    assert ratio(NATIVE, [NATIVE, OURS]) is None


def test_a_reference_of_another_case_is_not_compared_with() -> None:
    other = Row("B1", "4 readers", "native", "files/s", (1.0,), "native")
    assert ratio(OURS, [other, OURS]) is None


def test_a_reference_of_another_unit_is_not_compared_with() -> None:
    other = Row("B1", "1 reader", "native", "CPU s", (1.0,), "native")
    assert ratio(OURS, [other, OURS]) is None


def test_the_table_stands_in_columns() -> None:
    lines = [line for line in table(report()).splitlines() if "1 reader" in line]
    assert [line.index("files/s") for line in lines] == [lines[0].index("files/s")] * 2


def test_json_keeps_every_sample() -> None:
    assert from_json(to_json(report())) == report()


def test_costs_are_told_as_medians() -> None:
    costs = [COST, Cost(0.5, 0.1, 900, 1_000_000, 100_000_000), Cost(2.5, 0.9, 1100, 3_000_000, 300_000_000)]
    assert cost_in_words(costs) == "CPU 1.50 s, server 0.50 s; 1,000 GETs, 2.00 MB, 206 MB RSS"


def test_a_cost_without_a_process_has_no_memory() -> None:
    assert "RSS" not in cost_in_words([Cost(0.0, 0.5, 1, 1, 0)])


def test_the_page_has_a_line_for_each_row() -> None:
    words = cost_in_words([COST])
    line = f"| 1 reader | Stoker native | 950 | files/s | 1 | 0.95 x native | {words} | read-only |"
    assert line in page().splitlines()


def test_the_page_names_the_command_that_made_it() -> None:
    assert "`python -m bench run`" in page()


def test_the_page_says_that_others_had_the_processor_too() -> None:
    assert "busy with other work (load average 5.0" in page(machine=BUSY)


def test_the_page_of_an_idle_machine_says_so() -> None:
    assert "idle before the run" in page()


def test_a_bar_that_is_met_is_said_to_be() -> None:
    line = "| B1 | as fast as the disk | >= 0.95 x | 0.96 (1 reader) | yes |  |"
    assert line in page(Verdict(TARGET, 0.96, "1 reader")).splitlines()


def test_a_bar_that_is_met_needs_no_reason() -> None:
    assert "slow disk" not in page(Verdict(TARGET, 0.96, ""), b1=Reason("A slow disk.", "Another."))


def test_a_missed_bar_stands_with_its_reason() -> None:
    assert "| **no** | A slow disk. Another disk. |" in page(MISSED, b1=Reason("A slow disk.", "Another disk."))


def test_a_missed_bar_without_a_reason_says_so() -> None:
    assert "| **no** | not explained yet |" in page(MISSED)


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert "|  | not measured |  |" in page(Verdict(TARGET, None, ""))


def test_the_picture_stands_with_the_training() -> None:
    rows = (Row("gpus", "1 GPU, epoch 1", "native", "images/s", (1.0,)),)
    text = markdown(Report("c", IDLE, rows), [], {}, "img/gpus.svg")
    assert "](img/gpus.svg)" in text.partition("## Training")[2]


def test_of_a_workload_that_two_runs_measured_the_later_counts() -> None:
    again = Row("B1", "1 reader", "native", "files/s", (2000.0,), "native")
    other = Row("B5", "walk", "native", "entries/s", (5.0,), "native")
    runs = (Report("first", IDLE, (NATIVE, OURS)), Report("second", IDLE, (other,)), Report("third", IDLE, (again,)))
    assert combined(runs).rows == (again, other)


def test_runs_on_a_busy_machine_are_not_hidden_by_idle_ones() -> None:
    assert combined((report(BUSY), report(IDLE))).machine == BUSY


def test_the_page_of_several_runs_names_each_command() -> None:
    both = combined((Report("one", IDLE, (NATIVE,)), Report("two", IDLE, (OURS,))))
    assert "command `one`, `two`:" in markdown(both, (), {}, "")
