"""How a cost grows with the size of a cluster."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.growth import GROWING, curves_by_size, fit, size_of
from bench.plot import draw_sizes
from bench.report import Row
from bench.workloads.control_plane import exponents

FIGURE = GROWING[0]
SIZES = (100, 500, 1_000, 5_000)


def rows(exponent: float, sizes: tuple[int, ...] = SIZES) -> list[Row]:
    system, _, unit = FIGURE.partition(": ")
    cases = [(f"{size:,} nodes, {size // 5:,} Datasets", 2.0 * size**exponent) for size in sizes]
    return [Row("control-plane", case, system, unit, (value,)) for case, value in cases]


@given(
    factor=st.floats(1.0, 1e3),
    exponent=st.floats(-1.0, 3.0),
    sizes=st.lists(st.integers(1, 10_000), min_size=2, max_size=6, unique=True),
)
def test_a_power_law_is_found_again(factor: float, exponent: float, sizes: list[int]) -> None:
    law = fit({size: factor * size**exponent for size in sizes})
    assert law is not None
    assert law.exponent == pytest.approx(exponent, abs=1e-6)


def test_a_cost_that_no_size_changes_has_the_exponent_0() -> None:
    law = fit(dict.fromkeys(SIZES, 7.0))
    assert law is not None
    assert law.exponent == pytest.approx(0.0, abs=1e-9)
    assert law.at(123) == pytest.approx(7.0)


def test_one_size_has_no_exponent() -> None:
    assert fit({100: 1.0}) is None


def test_a_cost_of_nothing_can_be_fitted() -> None:
    law = fit({100: 0.0, 1_000: 0.0})
    assert law is not None
    assert law.exponent == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("case", "size"), [("5,000 nodes, 20 Datasets", 5_000), ("100 nodes", 100), ("warm", None)])
def test_a_case_names_its_size(case: str, size: int | None) -> None:
    assert size_of(case) == size


def test_figures_are_found_by_their_sizes() -> None:
    other = Row("control-plane", "100 nodes, 20 Datasets", "webhook", "ms, p99", (1.0,))
    assert curves_by_size([*rows(1.0, (100, 500)), other], GROWING) == {FIGURE: {100: 200.0, 500: 1_000.0}}


def test_a_run_of_several_sizes_has_a_row_with_the_exponent() -> None:
    (row,) = exponents(rows(1.5))
    assert (row.case, row.system) == ("all sizes", FIGURE)
    assert row.median == pytest.approx(1.5)


def test_a_run_of_one_size_has_none() -> None:
    assert list(exponents(rows(1.5, (100,)))) == []


def test_the_plot_shows_each_figure_with_its_exponent(tmp_path: Path) -> None:
    draw_sizes(curves_by_size(rows(0.5), GROWING), tmp_path / "img" / "plot.svg")
    picture = (tmp_path / "img" / "plot.svg").read_text()
    assert "exponent 0.50" in picture
    assert FIGURE in picture
