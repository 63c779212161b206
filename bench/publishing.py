"""Keeps the figures of each workload next to its page in docs/performance. Writes the pages and the index from them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from bench.errors import UsageError
from bench.growth import GROWING, curves_by_size
from bench.page import index, workload_page
from bench.plot import curves, draw, draw_sizes
from bench.report import TITLES, Report, by_workload, from_json, to_json
from bench.targets import Reason, judge, judge_all, reasons

_REASONS = Path(__file__).parent / "reasons.toml"
_PICTURES = Path("img")  # below the docs folder


def known_reasons() -> Mapping[str, Reason]:
    """Return the reasons for missed targets. Raises ValueError for a reason without a target."""
    return reasons(tomllib.loads(_REASONS.read_text()))


def read_report(file: Path) -> Report:
    """Read the JSON of a run. Raises UsageError if it is invalid."""
    try:
        return from_json(file.read_text())
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"what `python -m bench run --json` wrote was expected in {file}: {error!r}") from error


def keep(report: Report, docs: Path) -> None:
    """Replace the figures of the same workloads, one file each. Raises UsageError without a clean commit."""
    if not report.origin.published:
        raise UsageError("pages show figures of one commit: commit your changes and measure again")
    for workload, part in by_workload(report).items():
        _kept(docs, workload).write_text(to_json(part))


def write_pages(docs: Path) -> None:
    """Write every page with stored figures, its plot and the index. Raises UsageError without stored figures."""
    files = {workload: _kept(docs, workload) for workload in TITLES}
    reports = {workload: read_report(file) for workload, file in files.items() if file.exists()}
    if not reports:
        raise UsageError(f"no figures are kept in {docs / 'performance'}: measure with `python -m bench run --write`")
    why = known_reasons()
    for workload, report in reports.items():
        page = workload_page(workload, report, judge(report.rows), why, _drawn(workload, report, docs))
        _kept(docs, workload).with_suffix(".md").write_text(page)
    rows = [row for report in reports.values() for row in report.rows]
    (docs / "performance/README.md").write_text(index(reports, judge_all(rows)))


def _kept(docs: Path, workload: str) -> Path:
    folder = docs / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{workload}.json"


def draw_plots(report: Report, folder: Path) -> list[Path]:
    """Draw the plots of a run's workloads. Return the files."""
    drawn = []
    for workload, part in by_workload(report).items():
        file = folder / f"{workload}.svg"
        if plot := curves(part.rows):
            draw(plot, file)
        elif sizes := curves_by_size(part.rows, GROWING):
            draw_sizes(sizes, file)
        else:
            continue
        drawn.append(file)
    return drawn


def _drawn(workload: str, report: Report, docs: Path) -> str:
    """Draw the plot of a report. Return its path relative to a page, or "" if there is no plot."""
    return f"../{_PICTURES}/{workload}.svg" if draw_plots(report, docs / _PICTURES) else ""
