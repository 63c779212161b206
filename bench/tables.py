"""The format of figures in tables, for a terminal and for a page. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median

from bench.report import TITLES, Cost, Machine, Origin, Report, Row, ratio, sections

HEAD = ("case", "system", "median (min-max)", "unit", "runs", "ratio", "cost", "note")
_COMPARED_HEAD = ("workload", "case", "system", "unit", "before", "after", "after / before", "")
_NOISE = "ranges overlap"
_SHORT_HASH = 7


def number(value: float) -> str:
    """Format a figure with three significant digits. From 100 on, it is whole, with thousands separators."""
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def spread(samples: Sequence[float]) -> str:
    """Format samples as ``median (min-max)``, or a single sample alone."""
    middle = number(median(samples))
    return middle if len(samples) == 1 else f"{middle} ({number(min(samples))}-{number(max(samples))})"


def cost_in_words(costs: Sequence[Cost]) -> str:
    """Format the medians of the costs. Empty without samples."""
    if not costs:
        return ""
    cpu, server = number(median(cost.cpu for cost in costs)), number(median(cost.server_cpu for cost in costs))
    gets, sent = median(cost.gets for cost in costs), number(median(cost.sent for cost in costs) / 1e6)
    rss = median(cost.peak_rss for cost in costs) / 1e6
    memory = f", {rss:.0f} MB RSS" if rss else ""
    return f"CPU {cpu} s, server {server} s; {gets:,.0f} GETs, {sent} MB{memory}"


def cells(row: Row, rows: Iterable[Row]) -> tuple[str, ...]:
    """Return a row as texts, in the order of ``HEAD``."""
    factor = ratio(row, rows)
    compared = f"{number(factor)} x {row.against}" if factor is not None else ""
    figures = (spread(row.samples), row.unit, str(row.runs), compared)
    return (row.case, row.system, *figures, cost_in_words(row.costs), row.note)


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Align texts in columns for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def table(report: Report) -> str:
    """Format a report for a terminal."""
    lines = []
    for workload, rows in sections(report.rows).items():
        lines += ["", TITLES[workload], *columns([HEAD, *(cells(row, rows) for row in rows)])]
    return "\n".join([*lines, "", f"{measured_at(report.origin)}.", *conditions(report.machine)])


def commit_in_words(origin: Origin) -> str:
    """Format the short commit, and mark a dirty checkout."""
    if not origin.commit:
        return "an unknown commit"
    return f"commit {origin.commit[:_SHORT_HASH]}" + (" with changes that are in no commit" if origin.dirty else "")


def measured_at(origin: Origin) -> str:
    """Format the subject and the date of a measurement, as the start of a sentence."""
    day, _, time = origin.date.partition("T")
    moment = f"{day}, {time.removesuffix('Z')} UTC" if time else day
    return f"Measured at {commit_in_words(origin)} on {moment}, scale {origin.scale}"


def conditions(machine: Machine) -> list[str]:
    """Return sentences about the machine and its other load."""
    facts = (
        f"Linux {machine.kernel} with {machine.cores} cores and {machine.memory_gib} GiB of memory, "
        f"Python {machine.python}, cache disk {machine.cache_disk}."
    )
    if machine.busy:
        return [
            facts,
            f"The machine was busy with other work (load average {machine.load_before:.1f} before the run), which "
            "takes CPU from every figure: compare rows of one case, not absolute figures.",
        ]
    return [facts, f"The machine was idle before the run (load average {machine.load_before:.1f})."]


def compared(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return a line for each figure that both runs have, with its head."""
    earlier = {_key(row): row for row in before}
    pairs = [(earlier[_key(row)], row) for row in after if _key(row) in earlier]
    return [_COMPARED_HEAD, *(_line(old, new) for old, new in pairs)]


def _key(row: Row) -> tuple[str, str, str, str]:
    return row.workload, row.case, row.system, row.unit


def _line(before: Row, after: Row) -> tuple[str, ...]:
    factor = number(after.median / before.median) if before.median else ""
    return (*_key(after), spread(before.samples), spread(after.samples), factor, _remark(before, after))


def _remark(before: Row, after: Row) -> str:
    """Return whether the ranges of samples overlap. A single sample cannot show that."""
    if min(len(before.samples), len(after.samples)) < 2:
        return ""
    apart = max(before.samples) < min(after.samples) or max(after.samples) < min(before.samples)
    return "" if apart else _NOISE
