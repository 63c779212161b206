"""Rows of figures to a table for people, JSON for programs, and the page docs/PERFORMANCE.md. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Row:
    """One figure: ``samples`` of what ``subject`` did in ``case``.

    ``against``: the subject of the same case whose median is 1.00 in the column of ratios; empty for none.
    """

    workload: str
    case: str
    subject: str
    unit: str
    samples: tuple[float, ...]
    against: str = ""
    note: str = ""

    @property
    def median(self) -> float:
        """Of the samples."""
        return median(self.samples)


@dataclass(frozen=True)
class Machine:
    """What the figures depend on. ``load_before``: the machine's load average before the run began."""

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


_HEAD = ("case", "subject", "median (min-max)", "unit", "runs", "ratio", "note")
_TITLES = {
    "B1": "B1: small files read by training epochs",
    "B5": "B5: metadata",
    "B6": "B6: warm-up",
    "memory": "Memory of the sidecar, and what reached the server",
}


def ratio(row: Row, rows: Iterable[Row]) -> float | None:
    """The row's median as a multiple of its reference's; None without one."""
    if not row.against or row.against == row.subject:
        return None
    same = (other for other in rows if (other.workload, other.case, other.unit) == (row.workload, row.case, row.unit))
    reference = next((other.median for other in same if other.subject == row.against), 0.0)
    return row.median / reference if reference else None


def number(value: float) -> str:
    """Three significant digits; whole from 100 on, with thousands set apart."""
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def spread(samples: Sequence[float]) -> str:
    """``median (min-max)``; a single sample stands alone."""
    middle = number(median(samples))
    return middle if len(samples) == 1 else f"{middle} ({number(min(samples))}-{number(max(samples))})"


def _cells(row: Row, rows: Iterable[Row]) -> tuple[str, ...]:
    factor = ratio(row, rows)
    compared = f"{number(factor)} x {row.against}" if factor is not None else ""
    return (row.case, row.subject, spread(row.samples), row.unit, str(len(row.samples)), compared, row.note)


def _sections(rows: Sequence[Row]) -> dict[str, list[Row]]:
    sections: dict[str, list[Row]] = {}
    for row in rows:
        sections.setdefault(row.workload, []).append(row)
    return sections


def table(report: Report) -> str:
    """For a terminal."""
    lines = []
    for workload, rows in _sections(report.rows).items():
        cells = [_HEAD, *(_cells(row, rows) for row in rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
        lines += ["", _TITLES[workload]]
        lines += [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells
        ]
    return "\n".join([*lines, "", *_conditions(report.machine)])


def to_json(report: Report) -> str:
    """With every sample."""
    return json.dumps(asdict(report), indent=1) + "\n"


def from_json(text: str) -> Report:
    """What ``to_json`` wrote."""
    wire = json.loads(text)
    rows = tuple(Row(**{**row, "samples": tuple(row["samples"])}) for row in wire["rows"])
    return Report(wire["command"], Machine(**wire["machine"]), rows)


def _conditions(machine: Machine) -> list[str]:
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


_INTRODUCTION = """\
# Performance

Made by the command `{command}`: do not edit, run it again. Figures are medians with the least
and the greatest sample, and ratios are between medians of one run. Only the memory has a bar so far: 300 MB for all processes of
a sidecar with a dataset of 200,000 objects, and no LIST for a lookup. The others are figures as they are.

{conditions}

What stands beside what:
- **native** is the same tree on the cache disk with no Stoker: the limit for reading.
- **s5cmd** copies the same objects with 64 workers: the limit for fetching. It keeps no manifest, checks no MD5, and asks without
  `If-Match`; Stoker's time includes all of that and the listing.
- **Stoker bind** is what a pod gets once every byte is on the node: a read-only bind mount, with none of our processes in the way.
- **Stoker FUSE** is what a pod gets while bytes are missing.

The S3 server (versitygw) runs on the same cores as the clients, its data in memory; so CPU that a client saves, the server gets.
A *dropped* page cache means that the kernel had forgotten every page, name and inode of the cache disk, not that the disk below
has no cache of its own. Bytes are counted in every epoch and a wrong count ends the run.
"""


def markdown(report: Report) -> str:
    """The page."""
    conditions = "\n".join(_conditions(report.machine))
    parts = [_INTRODUCTION.format(command=report.command, conditions=conditions)]
    for workload, rows in _sections(report.rows).items():
        lines = [f"## {_TITLES[workload]}", "", _line(_HEAD), _line(["---"] * len(_HEAD))]
        parts.append("\n".join(lines + [_line(_cells(row, rows)) for row in rows]) + "\n")
    return "\n".join(parts)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
