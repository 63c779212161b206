"""Rows of figures, and how they read in a table and as JSON. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Cost:
    """What one sample cost.

    CPU seconds of the system's processes and of the server, GETs and bytes of bodies that the server ``sent``, and the
    sum of the highest RSS, in bytes, of the system's processes.
    """

    cpu: float
    server_cpu: float
    gets: int
    sent: int
    peak_rss: int


@dataclass(frozen=True)
class Row:
    """One figure: ``samples`` of what ``system`` did in ``case``, and their ``costs`` in the same order, or none.

    ``against``: the system of the same case whose median is 1.00 in the column of ratios; empty for none.
    """

    workload: str
    case: str
    system: str
    unit: str
    samples: tuple[float, ...]
    against: str = ""
    note: str = ""
    costs: tuple[Cost, ...] = ()

    @property
    def median(self) -> float:
        """The median of the samples."""
        return median(self.samples)


@dataclass(frozen=True)
class Machine:
    """The machine that figures depend on. ``load_before`` is its load average before the run began."""

    kernel: str
    cores: int
    memory_gib: int
    python: str
    cache_disk: str
    load_before: float

    @property
    def busy(self) -> bool:
        """Whether others had so much to do that the figures suffered: over a tenth of the cores."""
        return self.load_before > 0.1 * self.cores


@dataclass(frozen=True)
class Report:
    """One run. ``command``: what made it."""

    command: str
    machine: Machine
    rows: tuple[Row, ...]


HEAD = ("case", "system", "median (min-max)", "unit", "runs", "ratio", "cost", "note")
TITLES = {
    "B1": "B1: small files read by training epochs",
    "B2": "B2: large files read from start to end",
    "B3": "B3: a dataset that does not fit its quota",
    "B4": "B4: random reads in a large file",
    "B5": "B5: metadata",
    "B6": "B6: warm-up",
    "B7": "B7: sharing a download",
    "B8": "B8: the first batch",
    "B10": "B10: becoming native under readers",
    "storm": "Kill storm",
    "idle": "The sidecar while warm pods read",
    "memory": "Memory of the sidecar, and what reached the server",
    "gpus": "Training simulated: images a second",
}


def ratio(row: Row, rows: Iterable[Row]) -> float | None:
    """Return the row's median as a multiple of its reference's; None without one."""
    if not row.against or row.against == row.system:
        return None
    same = (other for other in rows if (other.workload, other.case, other.unit) == (row.workload, row.case, row.unit))
    reference = next((other.median for other in same if other.system == row.against), 0.0)
    return row.median / reference if reference else None


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
    figures = (spread(row.samples), row.unit, str(len(row.samples)), compared)
    return (row.case, row.system, *figures, cost_in_words(row.costs), row.note)


def sections(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows by workload."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.workload, []).append(row)
    return found


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Set texts below each other for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def table(report: Report) -> str:
    """Write a report for a terminal."""
    lines = []
    for workload, rows in sections(report.rows).items():
        lines += ["", TITLES[workload], *columns([HEAD, *(cells(row, rows) for row in rows)])]
    return "\n".join([*lines, "", *conditions(report.machine)])


def to_json(report: Report) -> str:
    """Write a report as JSON, with every sample."""
    return json.dumps(asdict(report), indent=1) + "\n"


def from_json(text: str) -> Report:
    """Read what ``to_json`` wrote. Raises ValueError, TypeError or KeyError for anything else."""
    wire = json.loads(text)
    rows = tuple(
        Row(**{**row, "samples": tuple(row["samples"]), "costs": tuple(Cost(**cost) for cost in row["costs"])})
        for row in wire["rows"]
    )
    return Report(wire["command"], Machine(**wire["machine"]), rows)


def combined(reports: Sequence[Report]) -> Report:
    """Runs of different workloads as one; of a workload that several measured, the last. The busiest machine speaks for all."""
    latest = {workload: rows for report in reports for workload, rows in sections(report.rows).items()}
    rows = tuple(row for workload in TITLES if workload in latest for row in latest[workload])
    busiest = max((report.machine for report in reports), key=lambda machine: machine.load_before)
    return Report("`, `".join(report.command for report in reports), busiest, rows)


def conditions(machine: Machine) -> list[str]:
    """Return sentences on the machine, and on who else used it."""
    facts = (
        f"Measured on Linux {machine.kernel} with {machine.cores} cores and {machine.memory_gib} GiB of memory, "
        f"Python {machine.python}, cache disk {machine.cache_disk}."
    )
    if machine.busy:
        return [
            facts,
            f"The machine was busy with other work (load average {machine.load_before:.1f} before the run), which takes "
            "CPU from every figure: compare rows of one case, not absolute figures.",
        ]
    return [facts, f"The machine was idle before the run (load average {machine.load_before:.1f})."]
