"""The pages of docs/performance: one per workload, and README.md as their index. Pure."""

from collections.abc import Mapping, Sequence

from bench.report import TITLES, Report
from bench.tables import HEAD, cells, commit_in_words, conditions, measured_at, number
from bench.targets import Reason, Verdict

# Code spans and blocks of these pages contain only commands, which tests/repo checks.
_INDEX = """\
# Performance

Each workload has a page with its figures, the command that measures them, the commit, the date and the machine. This
command measures a workload in minutes (as root) and writes its page and this index:

```sh
python -m bench run B1 --write
```

This command writes all pages again from the kept figures, after a change of the reasons in bench/reasons.toml:

```sh
python -m bench page
```

The pages are generated: do not edit them. A run that writes them refuses a checkout with uncommitted changes. Figures
are medians with the least and the greatest sample. Ratios are between medians of one run. Compare figures of different
pages with care: each page is a run of its own.

## What stands beside what

- **native** is the same tree on the cache disk by its path, with no mount of Stoker: the limit for reading. In the
  training simulation, where the first epoch counts too, it is a plain copy.
- **s5cmd** copies the same objects with 64 workers: the limit for fetching. It keeps no manifest, checks no checksum,
  and sends no If-Match; Stoker's time includes all of that and the listing. Neither waits until the disk has
  synced.
- **Stoker native** is what a pod gets once every byte is on the node: a read-only bind mount, with no Stoker process
  in the data path.
- **Stoker overlay** is what a pod gets while bytes are missing, where kernel and disk allow: names and cached bytes
  from the kernel, the rest through FUSE. **Stoker FUSE** is what it gets elsewhere, and when the overlay is Off.
- **Stoker** alone is what a node does by itself, from the first mount on. A line with *off* is a run without that
  mechanism.

The S3 server (versitygw) runs on the same cores as the clients, its data in memory; so CPU that a client saves, the
server gets. It keeps a CRC-64/NVME of each object, as Amazon S3 does for all objects since 2025, except in cases
*with an MD5 only*. P0 is that server as it is, P20 with 20 ms before each request, PBW with 5 ms and a line of 200
Mbit/s. *Cost* is CPU of the measured processes and of the server, GETs and megabytes of bodies that the server sent,
and the sum of the processes' highest RSS. With a *dropped* page cache the kernel has no page, name or inode of the
cache disk in memory; the disk below may have a cache of its own. Bytes are counted in every epoch and a
wrong count ends the run.

## Workloads

"""
_TARGETS = """
## Targets

{met} of {all} targets are met; {unmeasured} were not measured, which counts as missed. Every target of a workload has a
row. The worst row of a workload decides. The page of a workload gives the reason for a miss and the remedy. Next to a
missed target stands what another program got from the machine in the same run, if the run shows it.

"""
_WORKLOADS_HEAD = ("workload", "commit", "date", "scale", "load before")
_INDEX_HEAD = ("workload", "target", "wanted", "measured", "met?", "commit", "date")
_TARGETS_HEAD = ("target", "wanted", "measured", "met?", "why not, and what would remedy it")
_PAGE = """\
# {title}

{measured}. [Performance](README.md) says what stands beside what, and how this page is made.

```sh
{command}
```

{conditions}
"""
_PLOTS = {
    "gpus": """\

Each simulated GPU is a process with a loader of 4 threads that read whole images, and a fixed time for each step: 2,051
images/s at most. Every file system starts cold, and the page cache is dropped before every epoch, as if the dataset
were larger than memory.

![Images a second of 1, 4 and 8 simulated GPUs in each epoch]({picture})
""",
    "article": """\

The store is 20 ms away for all but native, a plain copy on the disk. Each simulated GPU is a process with a loader of 4
threads that read whole images, and a fixed time for each step: 2,051 images/s at most. The page cache is dropped before
every epoch. s3fs keeps names and data, rclone names, and data where its cache is full; with Stoker all data is warm
before the first epoch, or nothing is here, or nothing is and the order is known.

![Images a second of 1, 4 and 8 simulated GPUs in each epoch, cold, warm, and with a known order]({picture})
""",
    "control-plane": """\

etcd, API server, controllers, scheduler, the chart and the operator are real. Nodes are kept alive by kwok, and one
process plays their sidecars on the API server's wire, with the sidecar's own code for statuses and their pace: of 50
each one is slow (five times), one silent, and one writes statuses that make no sense. One Dataset for five nodes lies
on three nodes each, and some lie on all. All of it shares the machine's cores, so seconds and milliseconds are of a
busy machine, and the last column says what else took CPU; *CPU* of the operator is its own. It is lighter than a real
cluster: one watch serves all sidecars, where each has its own; nodes renew their Leases every 100 s, where kubelets do
every 10; nobody reads Secrets again each minute, and nodes take nothing from each other. A report is followed from
a quiet operator to a quiet one. *Blocking* is what the thread of the event loop computed before it gave the loop
back, *delay* includes waiting for a core; both are known to within a bucket of a histogram, and the edge above is
shown. The operator is the chart's but for the way to the API server, by a kubeconfig, whose library takes 19 MB.

![Figures of the operator by the number of nodes, on logarithmic scales]({picture})
""",
}
_ABOUT = {
    "peers": """\

Bucket and nodes are network namespaces on one bridge, each behind a line that tc holds to the rate of the case, in each
direction. Nodes are whole sidecars, each with an API server that plans for it as the operator does; they list first,
and the time runs from the plan that has all of them warm the version until the last of them has it. They share this
machine's cores, so lines are a twentieth of 1 Gbit/s, or three, and the last column says how busy the cores were.
Where all *read it, cold*, two processes on each node read all files from that moment on, each node in an order of its
own, and they are what is waited for.
""",
    "faults": """\

Nodes of one process, over the real TLS between them, warm 83 MB of small files and two large ones from a source behind
a line of 8 MB/s, while each is read at random: in turn without faults and with them. Every second node answers wrongly
half of the time (wrong, too few or too many bytes, nothing, silence, a broken connection, "busy", and maps of what it
has that are not so), and in every second pair of runs one of these is gone for good after some seconds.
""",
    "cold": """\

A version is read in a shuffled order by readers while nothing of it is on the disk, with the order known to the node
and without; or it is warmed and read by nobody. CPU is that of all of the node's processes from the mount on, and the
note tells it by process; s5cmd copies the same objects, and reads nothing.
""",
}


def target_cells(verdict: Verdict, reasons: Mapping[str, Reason]) -> tuple[str, ...]:
    """Return a line of a workload's table of targets. Only a missed target shows a reason."""
    return (*_judged(verdict), _explained(verdict, reasons))


def targets_table(verdicts: Sequence[Verdict], reasons: Mapping[str, Reason]) -> list[tuple[str, ...]]:
    """Return a workload's table of targets, with its head."""
    return [_TARGETS_HEAD, *(target_cells(verdict, reasons) for verdict in verdicts)]


def workload_page(
    workload: str, report: Report, verdicts: Sequence[Verdict], reasons: Mapping[str, Reason], picture: str = ""
) -> str:
    """Write the page of one workload. ``picture`` is the relative path of the plot, or empty."""
    origin = report.origin
    said = [*conditions(report.machine), *([origin.remark] if origin.remark else [])]
    head = {"title": TITLES[workload], "measured": measured_at(origin), "command": origin.command}
    parts = [_PAGE.format(**head, conditions="\n".join(said))]
    if verdicts:
        parts.append("\n## Targets\n\nThe worst row of a target decides.\n\n")
        parts.append(_table(targets_table(verdicts, reasons)))
    parts.append("\n## Figures\n")
    parts += [_ABOUT[workload]] if workload in _ABOUT else []
    parts += [_PLOTS[workload].format(picture=picture)] if picture else []
    parts += ["\n", _table([HEAD, *(cells(row, report.rows) for row in report.rows)])]
    return "".join(parts)


def index(reports: Mapping[str, Report], verdicts: Sequence[Verdict]) -> str:
    """Write the index of the workloads' pages. Each verdict has a row, even without a page."""
    pages = [_WORKLOADS_HEAD, *(_workload_cells(workload, report) for workload, report in reports.items())]
    counts = {
        "all": len(verdicts),
        "met": sum(verdict.met for verdict in verdicts),
        "unmeasured": sum(verdict.value is None for verdict in verdicts),
    }
    targets = [_INDEX_HEAD, *(_target_cells(verdict, reports.get(verdict.target.workload)) for verdict in verdicts)]
    return _INDEX + _table(pages) + _TARGETS.format(**counts) + _table(targets)


def _target_cells(verdict: Verdict, report: Report | None) -> tuple[str, ...]:
    workload = verdict.target.workload
    if report is None:
        return (workload, *_judged(verdict), "", "")
    return (_link(workload, workload), *_judged(verdict), commit_in_words(report.origin), _day(report))


def _workload_cells(workload: str, report: Report) -> tuple[str, ...]:
    origin, load = report.origin, f"{report.machine.load_before:.1f}"
    return (_link(workload, TITLES[workload]), commit_in_words(origin), _day(report), origin.scale, load)


def _link(workload: str, text: str) -> str:
    return f"[{text}]({workload}.md)"


def _day(report: Report) -> str:
    return report.origin.date.partition("T")[0]


def _judged(verdict: Verdict) -> tuple[str, str, str, str]:
    target = verdict.target
    unit = "x" if target.of_ratio else target.unit
    wanted = f"{'>=' if target.at_least else '<='} {number(target.limit)} {unit}"
    if verdict.value is None:
        return (target.says, wanted, "", "**no** (not measured)")
    return (target.says, wanted, f"{number(verdict.value)} ({verdict.case})", _met(verdict))


def _met(verdict: Verdict) -> str:
    """Return the verdict of a target. For a missed one, add the machine's own limit if the run has it."""
    if verdict.met:
        return "yes"
    if verdict.machine is None:
        return "**no**"
    return f"**no** ({verdict.target.machine}: {number(verdict.machine)})"


def _explained(verdict: Verdict, reasons: Mapping[str, Reason]) -> str:
    if verdict.met or verdict.value is None:
        return ""
    reason = reasons.get(verdict.target.key)
    return f"{reason.why} {reason.remedy}" if reason else "not explained yet"


def _table(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    return "".join(_line(line) + "\n" for line in [head, ["---"] * len(head), *rest])


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
