"""Figures are stored next to the pages that are generated from them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.errors import UsageError
from bench.machine import origin
from bench.publishing import keep, write_pages
from bench.report import Origin, Report, to_json
from tests.unit.bench.test_report import COMMIT, ORIGIN, REPORT


def test_a_run_becomes_a_page_and_an_index(tmp_path: Path) -> None:
    keep(REPORT, tmp_path)
    write_pages(tmp_path)
    assert "(B1.md)" in (tmp_path / "performance" / "README.md").read_text()
    assert (tmp_path / "performance" / "B1.md").read_text().startswith("# B1: small files")


def test_a_later_run_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    for commit in ("f" * 40, COMMIT):
        keep(Report(replace(ORIGIN, commit=commit), REPORT.machine, REPORT.rows), tmp_path)
    write_pages(tmp_path)
    assert "commit 0123456" in (tmp_path / "performance" / "B1.md").read_text()


def test_the_same_figures_give_the_same_pages(tmp_path: Path) -> None:
    result = tmp_path / "run.json"
    result.write_text(to_json(REPORT))
    assert main(["page", str(result), "--docs", str(tmp_path)]) == 0
    before = (tmp_path / "performance" / "README.md").read_text()
    assert main(["page", "--docs", str(tmp_path)]) == 0
    assert (tmp_path / "performance" / "README.md").read_text() == before


@pytest.mark.parametrize("source", [replace(ORIGIN, dirty=True), replace(ORIGIN, commit="")], ids=["changes", "no-git"])
def test_figures_that_no_commit_has_are_not_published(source: Origin, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="commit your changes"):
        keep(replace(REPORT, origin=source), tmp_path)
    assert not (tmp_path / "performance").exists()


def test_no_figures_are_no_page(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no figures are kept"):
        write_pages(tmp_path)


def test_what_no_run_wrote_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    assert main(["page", str(wrong), "--docs", str(tmp_path)]) == 1
    assert "was expected in" in capsys.readouterr().err


def test_a_run_says_when_it_began_in_utc() -> None:
    assert origin("c", "quick", datetime(2026, 11, 22, 3, 4, 5, tzinfo=UTC)).date == "2026-11-22T03:04:05Z"
