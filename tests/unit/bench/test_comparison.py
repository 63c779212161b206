"""Labels next to each figure in a comparison of two runs."""

from bench.report import Row
from bench.tables import compared


def row(*samples: float, case: str = "warm") -> Row:
    return Row("B1", case, "Stoker", "files/s", samples)


def test_medians_are_compared_with_those_of_the_same_case() -> None:
    _, line = compared([row(100.0), row(5.0, case="cold")], [row(90.0)])
    assert line == ("B1", "warm", "Stoker", "files/s", "100", "90.0", "0.90", "")


def test_samples_that_lie_among_each_other_tell_no_difference() -> None:
    _, line = compared([row(90.0, 110.0)], [row(80.0, 95.0)])
    assert line[-1] == "ranges overlap"


def test_samples_that_lie_apart_do() -> None:
    _, line = compared([row(90.0, 110.0)], [row(70.0, 80.0)])
    assert line[-1] == ""


def test_nothing_can_be_divided_by_nothing() -> None:
    _, line = compared([row(0.0)], [row(1.0)])
    assert line[-2] == ""
