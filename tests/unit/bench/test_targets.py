"""Targets are judged by the figures alone."""

import tomllib
from pathlib import Path

import pytest

import bench
from bench.report import TITLES, Row
from bench.targets import TARGETS, Target, judge, reasons
from tests.support.cases import cases

RATIO = Target("r", "B1", "as native", 0.95, True, "files/s", "Stoker", "warm", of_ratio=True)
MOST = Target("m", "B1", "few", 2, False, "GETs")


def row(system: str, *samples: float, case: str = "warm", unit: str = "files/s") -> Row:
    return Row("B1", case, system, unit, samples, "native")


def test_the_worst_row_decides() -> None:
    rows = [row(name, rate, case=case) for case, rate in (("warm 1", 90.0), ("warm 2", 99.0)) for name in ("Stoker",)]
    rows += [row("native", 100.0, case=case) for case in ("warm 1", "warm 2")]
    (verdict,) = judge(rows, [RATIO])
    assert (verdict.case, verdict.met) == ("warm 1", False)


@cases("other", system=row("other", 1.0), case=row("Stoker", 1.0, case="cold"), unit=row("Stoker", 1.0, unit="CPU s"))
def test_rows_of_others_do_not_count(other: Row) -> None:
    (verdict,) = judge([row("native", 100.0), row("Stoker", 100.0), other], [RATIO])
    assert verdict.value == 1.0


def test_a_figure_at_the_limit_meets_the_bar() -> None:
    (verdict,) = judge([row("a", 2.0, unit="GETs")], [MOST])
    assert verdict.met


@cases(
    "rows, target, found",
    not_the_extremes=([row("native", 100.0), row("Stoker", 1.0, 96.0, 97.0)], RATIO, (0.96, True)),
    the_largest_where_few_are_wanted=([row("a", 1.0, unit="GETs"), row("b", 3.0, unit="GETs")], MOST, (3.0, False)),
    missed_if_its_reference_was_not_measured=([row("Stoker", 100.0)], RATIO, (None, False)),
)
def test_the_worst_row_decides_by_its_median(rows: list[Row], target: Target, found: tuple[float | None, bool]) -> None:
    (verdict,) = judge(rows, [target])
    assert (verdict.value, verdict.met) == found


def test_a_workload_that_was_not_run_has_no_bars() -> None:
    assert judge([Row("B2", "", "", "", (1.0,))], [RATIO]) == []


def test_every_bar_has_a_key_of_its_own() -> None:
    assert len({target.key for target in TARGETS}) == len(TARGETS)


def test_every_bar_is_of_a_workload() -> None:
    assert {target.workload for target in TARGETS} <= set(TITLES)


def test_a_reason_of_no_bar_is_refused() -> None:
    with pytest.raises(ValueError, match="explains b99"):
        reasons({"b99": {"why": "", "remedy": ""}})


def test_the_reasons_that_are_kept_are_of_bars() -> None:
    kept = tomllib.loads((Path(bench.__file__).parent / "reasons.toml").read_text())
    assert set(reasons(kept)) == set(kept)


LIMITED = Target("l", "B1", "fast", 5.0, True, "files/s", "Stoker", "warm", of_ratio=True, machine="s5cmd")


def test_what_the_machine_gives_stands_beside_a_target_and_does_not_meet_it() -> None:
    (verdict,) = judge([row("native", 100.0), row("Stoker", 250.0), row("s5cmd", 200.0)], [LIMITED])
    assert (verdict.value, verdict.machine, verdict.met) == (2.5, 2.0, False)


def test_what_the_machine_gave_in_another_case_is_not_shown() -> None:
    rows = [row("native", 100.0), row("Stoker", 190.0), row("s5cmd", 200.0, case="warm 2")]
    (verdict,) = judge(rows, [LIMITED])
    assert verdict.machine is None


def test_the_best_row_decides_where_several_systems_may_meet_it() -> None:
    best = Target("b", "B1", "either", 1.1, True, "files/s", of_ratio=True, best=True)
    (verdict,) = judge([row("native", 100.0), row("default", 105.0), row("template", 120.0)], [best])
    assert (verdict.value, verdict.met) == (1.2, True)


def test_the_limit_of_the_machine_meets_no_target() -> None:
    best = Target("b", "B1", "either", 1.1, True, "files/s", of_ratio=True, machine="s5cmd", best=True)
    (verdict,) = judge([row("native", 100.0), row("default", 105.0), row("s5cmd", 200.0)], [best])
    assert (verdict.value, verdict.machine, verdict.met) == (1.05, 2.0, False)
