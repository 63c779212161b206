"""The table of a measured run shows the sum, and the least covered files first."""

from typing import Any

from tests.support.coverage_table import lines


def file(percent: float, statements: int = 100) -> dict[str, Any]:
    return {"summary": {"percent_covered": percent, "num_statements": statements}}


REPORT: dict[str, Any] = {
    "files": {"a.py": file(90), "b.py": file(20), "c.py": file(50), "tiny.py": file(0, statements=3)},
    "totals": {"percent_covered": 53.25, "num_statements": 303},
}


def test_the_sum_comes_first() -> None:
    assert lines(REPORT)[1] == "reached by the unit tests: 53.2 % of 303 statements; least:"


def test_the_least_covered_files_are_shown_in_order() -> None:
    assert [line.split()[-1] for line in lines(REPORT, shown=2)[2:]] == ["b.py", "c.py"]


def test_a_file_of_a_few_lines_is_not_told_of() -> None:
    assert not [line for line in lines(REPORT) if "tiny.py" in line]
