"""The page docs/PERFORMANCE.md: introduction, targets, the training plot and every table. Pure."""

from collections.abc import Mapping, Sequence

from bench.report import HEAD, TITLES, Report, cells, conditions, number, sections
from bench.targets import Reason, Verdict

_INTRODUCTION = """\
# Performance

Made by the command `{command}`: do not edit, run it again. Figures are medians with the least
and the greatest sample, and ratios are between medians of one run.

{conditions}

What stands beside what:
- **native** is the same tree on the cache disk by its path, with no mount of Stoker: the limit for reading. In the training
  simulation, where the first epoch counts too, it is a plain copy.
- **s5cmd** copies the same objects with 64 workers: the limit for fetching. It keeps no manifest, checks no checksum, and asks without
  `If-Match`; Stoker's time includes all of that and the listing. Neither waits until the disk has synced.
- **Stoker native** is what a pod gets once every byte is on the node: a read-only bind mount, with none of our processes in the way.
- **Stoker overlay** is what a pod gets while bytes are missing, where kernel and disk allow: names and cached bytes from the kernel,
  the rest through FUSE. **Stoker FUSE** is what it gets elsewhere, and what `overlay: Off` leaves.
- **Stoker** alone is what a node does by itself, from the first mount on; every line with *off* is a run without that mechanism.

The S3 server (versitygw) runs on the same cores as the clients, its data in memory; so CPU that a client saves, the server gets.
It keeps a CRC-64/NVME of each object, as Amazon S3 does of all that were put since 2025, but in cases *with an MD5 only*.
P0 is that server as it is, P20 with 20 ms before each request, PBW with 5 ms and a line of 200 Mbit/s. *Cost* is CPU of the measured
processes and of the server, GETs and megabytes of bodies that the server sent, and the sum of the processes' highest RSS.
A *dropped* page cache means that the kernel had forgotten every page, name and inode of the cache disk, not that the disk below
has no cache of its own. Bytes are counted in every epoch and a wrong count ends the run.
"""
_TARGETS_HEAD = ("", "target", "wanted", "measured", "met?", "why not, and what would remedy it")
_PLOT = """\
Each simulated GPU is a process with a loader of 4 threads that read whole images, and a fixed time for each step: 2,051 images/s at
most. Every file system starts cold, and the page cache is dropped before every epoch, as if the dataset were larger than memory.

![Images a second of 1, 4 and 8 simulated GPUs in each epoch]({picture})
"""


def target_cells(verdict: Verdict, reasons: Mapping[str, Reason]) -> tuple[str, ...]:
    """A line of the table of targets. A reason stands only where the target is missed."""
    target = verdict.target
    unit = "x" if target.of_ratio else target.unit
    wanted = f"{'>=' if target.at_least else '<='} {number(target.limit)} {unit}"
    if verdict.value is None:
        return (target.workload, target.says, wanted, "", "not measured", "")
    measured = f"{number(verdict.value)} ({verdict.case})"
    if verdict.met:
        return (target.workload, target.says, wanted, measured, "yes", "")
    reason = reasons.get(target.key)
    explained = f"{reason.why} {reason.remedy}" if reason else "not explained yet"
    return (target.workload, target.says, wanted, measured, "**no**", explained)


def targets_table(verdicts: Sequence[Verdict], reasons: Mapping[str, Reason]) -> list[tuple[str, ...]]:
    """With its head."""
    return [_TARGETS_HEAD, *(target_cells(verdict, reasons) for verdict in verdicts)]


def markdown(report: Report, verdicts: Sequence[Verdict], reasons: Mapping[str, Reason], picture: str) -> str:
    """The page. ``picture``: where the plot is, seen from the page; empty for none."""
    parts = [_INTRODUCTION.format(command=report.command, conditions="\n".join(conditions(report.machine)))]
    if verdicts:
        parts.append("## Targets\n\nThe worst row of a target decides.\n\n" + _table(targets_table(verdicts, reasons)))
    for workload, rows in sections(report.rows).items():
        text = _PLOT.format(picture=picture) + "\n" if workload == "gpus" and picture else ""
        parts.append(f"## {TITLES[workload]}\n\n{text}" + _table([HEAD, *(cells(row, rows) for row in rows)]))
    return "\n".join(parts)


def _table(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    return "".join(_line(line) + "\n" for line in [head, ["---"] * len(head), *rest])


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
