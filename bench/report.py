"""Rows of figures, where they come from, and both as JSON. Pure."""

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

    ``against`` is the system of the same case whose median is 1.00 in the column of ratios; empty for none. ``of_runs``
    is the number of runs where ``samples`` are only the least, the median and the greatest of them; else 0.
    """

    workload: str
    case: str
    system: str
    unit: str
    samples: tuple[float, ...]
    against: str = ""
    note: str = ""
    costs: tuple[Cost, ...] = ()
    of_runs: int = 0

    @property
    def median(self) -> float:
        """The median of the samples."""
        return median(self.samples)

    @property
    def runs(self) -> int:
        """How often this was measured."""
        return self.of_runs or len(self.samples)


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
class Origin:
    """What was measured, and when.

    ``commit`` is the full hash, empty where it is not known; then ``between`` names two commits with it in between.
    ``dirty`` tells that files differed from the commit. ``date`` is in UTC, as RFC 3339, or a day. ``remark`` says in
    words what else must be known of the run.
    """

    command: str
    commit: str
    dirty: bool
    date: str
    scale: str
    remark: str = ""
    between: str = ""


@dataclass(frozen=True)
class Report:
    """One run: where it comes from, the machine, and the figures of one workload or of several."""

    origin: Origin
    machine: Machine
    rows: tuple[Row, ...]


TITLES = {
    "B1": "B1: small files read by training epochs",
    "B2": "B2: large files read from start to end",
    "B3": "B3: a dataset that does not fit its quota",
    "B4": "B4: random reads in a large file",
    "B5": "B5: metadata",
    "B6": "B6: warm-up",
    "B7": "B7: sharing a download",
    "neighbours": "B7: nodes behind lines of their own warm one version at once",
    "faults": "Neighbours that lie, stall, break off and die",
    "cold": "A cold epoch of small files: what a file costs",
    "herd": "Herd, in a model: hundreds of nodes warm one version at once",
    "B8": "B8: the first batch",
    "B9": "B9: the order is known",
    "quota": "Epochs that do not fit the quota, with their order known and without",
    "B10": "B10: becoming native under readers",
    "second": "A second epoch in the overlay of the first, cold one",
    "pages": "The order of a whole version is known: pages are read ahead of its readers",
    "scarce": "The same with memory for a tenth of the data",
    "storm": "Kill storm",
    "idle": "The sidecar while warm pods read",
    "observer": "Readers while the node looks at what they open",
    "memory": "Memory of the sidecar, and what reached the server",
    "tuning": "Tuning: the nine cells, by the rules in force",
    "adaptive": "Adaptive: a number that a mount finds by itself, from a bad beginning",
    "gpus": "Training simulated: images a second",
    "article": "The article's experiment in small: a distant store, cold, warm, and its order known",
    "profiler": "Profiler: what it says, beside what is then measured",
    "quality": "Quality ratio 0.5, with half of the data warm",
    "start": "Start: mount, unmount, and processes that start anew",
    "control-plane": "Control plane: the operator by the size of the cluster",
}


def ratio(row: Row, rows: Iterable[Row]) -> float | None:
    """Return the row's median as a multiple of its reference's; None without one."""
    if not row.against or row.against == row.system:
        return None
    same = (other for other in rows if (other.workload, other.case, other.unit) == (row.workload, row.case, row.unit))
    reference = next((other.median for other in same if other.system == row.against), 0.0)
    return row.median / reference if reference else None


def sections(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows by workload."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.workload, []).append(row)
    return found


def by_workload(report: Report) -> dict[str, Report]:
    """Split a run into one report for each of its workloads."""
    parts = sections(report.rows).items()
    return {workload: Report(report.origin, report.machine, tuple(rows)) for workload, rows in parts}


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
    return Report(Origin(**wire["origin"]), Machine(**wire["machine"]), rows)
