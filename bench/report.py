"""Rows of figures, their origin, and both as JSON. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Cost:
    """The cost of one sample.

    CPU seconds of the system's processes and of the server, GETs, body bytes ``sent`` by the server, and the sum of the
    highest RSS, in bytes, of the system's processes.
    """

    cpu: float
    server_cpu: float
    gets: int
    sent: int
    peak_rss: int


@dataclass(frozen=True)
class Row:
    """One figure: the ``samples`` of a ``system`` in a ``case``. ``costs`` are in the same order, or empty.

    ``against`` is the reference of the same case, whose median is 1.00 in the column of ratios. Empty for none. If
    ``samples`` has only the minimum, the median and the maximum, ``of_runs`` is the number of runs. Otherwise it is 0.
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
        """The number of samples."""
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
        """Whether other processes distorted the figures: they used over a tenth of the cores."""
        return self.load_before > 0.1 * self.cores


@dataclass(frozen=True)
class Origin:
    """The subject and the date of a measurement.

    ``commit`` is the full hash, or empty outside a checkout. ``dirty`` means that files differed from the commit.
    ``date`` is in UTC, in RFC 3339. ``remark`` is a sentence for the page.
    """

    command: str
    commit: str
    dirty: bool
    date: str
    scale: str
    remark: str = ""

    @property
    def published(self) -> bool:
        """Whether a page may show these figures: the measured commit must be available."""
        return bool(self.commit) and not self.dirty


@dataclass(frozen=True)
class Report:
    """One run: its origin, the machine, and the figures of one or more workloads."""

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
    "peers": "B7: nodes behind lines of their own warm one version at once",
    "faults": "Peers that lie, stall, break off and die",
    "cold": "A cold epoch of small files: what a file costs",
    "sequential": "A cold sequential read from stores at several distances",
    "B8": "B8: the first batch",
    "B9": "B9: the order is known",
    "quota": "Epochs that do not fit the quota, with their order known and without",
    "B10": "B10: becoming native under readers",
    "pages": "The order of a whole version is known: pages are read ahead of its readers",
    "storm": "Kill storm",
    "idle": "The sidecar while warm pods read",
    "phases": "Phases, epochs and stall: what users see, beside what the program logs",
    "observer": "Readers while the node looks at what they open",
    "memory": "Memory of the sidecar, and what reached the server",
    "tuning": "Tuning: the nine cells, by level and template",
    "model": "A model loaded into memory: warm, cold and beside a warm-up",
    "retinanet": "MLPerf Storage v3.0, retinanet: B200s fed by small files",
    "gpus": "Training simulated: images a second",
    "article": "The article's experiment in small: a distant store, cold, warm, and its order known",
    "profiler": "Profiler: what it says, beside what is then measured",
    "quality": "Quality ratio 0.5, with half of the data warm",
    "start": "Start: mount, unmount, and processes that start anew",
    "control-plane": "Control plane: the operator by the size of the cluster",
}


def sampled(workload: str, case: str, unit: str, samples: Mapping[str, Sequence[float]], against: str) -> Iterator[Row]:
    """Yield the row of each system in a case, from its samples."""
    for system, figures in samples.items():
        yield Row(workload, case, system, unit, tuple(figures), against)


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
