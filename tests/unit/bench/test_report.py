"""What the benchmarks' report says of given rows."""

import pytest

from bench.report import Machine, Report, Row, from_json, markdown, number, ratio, spread, table, to_json

IDLE = Machine("6.18.44", 2, 24, "3.11.7", "ext4", load_before=0.1)
BUSY = Machine("6.18.44", 2, 24, "3.11.7", "ext4", load_before=5.0)
NATIVE = Row("B1", "1 reader", "native", "files/s", (1000.0, 800.0, 1200.0), "native")
OURS = Row("B1", "1 reader", "Stoker bind", "files/s", (950.0,), "native", "read-only")


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


def test_the_page_has_a_line_for_each_row() -> None:
    assert (
        "| 1 reader | Stoker bind | 950 | files/s | 1 | 0.95 x native | read-only |" in markdown(report()).splitlines()
    )


def test_the_page_names_the_command_that_made_it() -> None:
    assert "`python -m bench run`" in markdown(report())


def test_the_page_says_that_others_had_the_processor_too() -> None:
    assert "busy with other work (load average 5.0" in markdown(report(BUSY))


def test_the_page_of_an_idle_machine_says_so() -> None:
    assert "idle before the run" in markdown(report())
