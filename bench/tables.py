"""How figures read in a table, for a terminal and for a page. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median

from bench.report import TITLES, Cost, Machine, Origin, Report, Row, ratio, sections

HEAD = ("case", "system", "median (min-max)", "unit", "runs", "ratio", "cost", "note")
_SHORT_HASH = 7


def number(value: float) -> str:
    """Write a figure with three significant digits; whole from 100 on, with thousands set apart."""
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def spread(samples: Sequence[float]) -> str:
    """Write samples as ``median (min-max)``; a single sample stands alone."""
    middle = number(median(samples))
    return middle if len(samples) == 1 else f"{middle} ({number(min(samples))}-{number(max(samples))})"


def cost_in_words(costs: Sequence[Cost]) -> str:
    """Write the medians of what the samples cost; empty without any."""
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
    """Set texts below each other for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def table(report: Report) -> str:
    """Write a report for a terminal."""
    lines = []
    for workload, rows in sections(report.rows).items():
        lines += ["", TITLES[workload], *columns([HEAD, *(cells(row, rows) for row in rows)])]
    return "\n".join([*lines, "", f"{measured_at(report.origin)}.", *conditions(report.machine)])


def commit_in_words(origin: Origin) -> str:
    """Write the commit shortly, and whether files differed from it."""
    if not origin.commit:
        return "an unknown commit" + (f" between {origin.between}" if origin.between else "")
    return f"commit {origin.commit[:_SHORT_HASH]}" + (" with changes that are in no commit" if origin.dirty else "")


def measured_at(origin: Origin) -> str:
    """Write what was measured and when, as the beginning of a sentence."""
    day, _, time = origin.date.partition("T")
    moment = f"{day}, {time.removesuffix('Z')} UTC" if time else day
    return f"Measured at {commit_in_words(origin)} on {moment}, scale {origin.scale}"


def conditions(machine: Machine) -> list[str]:
    """Return sentences on the machine, and on who else used it."""
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
