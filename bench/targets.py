"""The targets of the issues, judged only by the figures of a run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.report import Row, ratio
from bench.systems import (
    DISK_ALONE,
    LONE_WEBHOOK,
    NATIVE,
    NOBODY_READS,
    ORDER_KNOWN,
    PLAIN_CLIENT,
    S5CMD,
    STOKER,
    STOKER_FUSE,
    STOKER_NATIVE,
    STOKER_OVERLAY,
)


@dataclass(frozen=True)
class Target:
    """A target figure of a workload, and the rows that it judges. The worst of them decides, or with ``best`` the best.

    It judges rows with its ``unit`` and ``system`` whose case contains ``case``. An empty ``case`` matches all, and an
    empty ``system`` matches all but ``machine``. With ``of_ratio``, it uses the row's ratio to its reference, not its
    figure. ``key`` finds the reason in reasons.toml. ``machine`` is the system whose row of the same case and unit
    shows the machine's limit.
    """

    key: str
    workload: str
    says: str
    limit: float
    at_least: bool
    unit: str
    system: str = ""
    case: str = ""
    of_ratio: bool = False
    machine: str = ""
    best: bool = False

    def reached(self, value: float, wanted: float) -> bool:
        """Return True if a figure is as good as another one."""
        return value >= wanted if self.at_least else value <= wanted

    def is_for(self, row: Row) -> bool:
        """Return True if the target judges this row."""
        same = (row.workload, row.unit) == (self.workload, self.unit) and self.case in row.case
        return same and (row.system == self.system if self.system else row.system != self.machine)


@dataclass(frozen=True)
class Verdict:
    """The figure and the case of a target's worst row. None and "" if nothing was measured.

    ``machine`` is the machine's limit in that case, if the target names a system for it.
    """

    target: Target
    value: float | None
    case: str
    machine: float | None = None

    @property
    def met(self) -> bool:
        """Whether the target is met. A target without a measurement is missed."""
        return self.value is not None and self.target.reached(self.value, self.target.limit)


@dataclass(frozen=True)
class Reason:
    """Why a target is missed, according to measurements, and a possible remedy."""

    why: str
    remedy: str


def _at_least(key: str, workload: str, says: str, limit: float, unit: str, system: str = "", case: str = "") -> Target:
    return Target(key, workload, says, limit, True, unit, system, case)


def _at_most(key: str, workload: str, says: str, limit: float, unit: str, system: str = "", case: str = "") -> Target:
    return Target(key, workload, says, limit, False, unit, system, case)


def _at_par(key: str, workload: str, says: str, unit: str, system: str, case: str = "") -> Target:
    return Target(key, workload, says, 0.95, True, unit, system, case, of_ratio=True)


def _at_least_of(key: str, workload: str, says: str, limit: float, unit: str, system: str) -> Target:
    return Target(key, workload, says, limit, True, unit, system, of_ratio=True)


def _of_time(key: str, workload: str, says: str, limit: float) -> Target:
    return Target(key, workload, says, limit, False, "s until all have it", STOKER, of_ratio=True)


def _in_order(key: str, workload: str, says: str, limit: float, case: str, machine: str) -> Target:
    return Target(key, workload, says, limit, True, "files/s", ORDER_KNOWN, case, of_ratio=True, machine=machine)


def _of_pages(key: str, says: str, limit: float, readers: str) -> Target:
    says, case = f"{says}: files/s of a copy", f"page cache dropped, {readers}"
    return _in_order(key, "pages", says, limit, case, DISK_ALONE)


def _of_s5cmd(key: str, what: str, limit: float, case: str) -> Target:
    return Target(key, "B6", f"warm-up, {what}: time of s5cmd", limit, False, "s", STOKER, case, of_ratio=True)


def _of_fed(key: str, workload: str, accelerator: str, step: str, limit: float = 0.95) -> Target:
    """Return a target of a cold epoch. Its bandwidth limit is the rate of s5cmd."""
    says, case = f"accelerator utilisation, cold, order known, {accelerator} class", f"a step of {step}"
    return Target(key, workload, says, limit, True, "accelerator utilisation", ORDER_KNOWN, case, machine=S5CMD)


def _of_plane(key: str, says: str, limit: float, unit: str, system: str = "operator", machine: str = "") -> Target:
    return Target(key, "control-plane", says, limit, False, unit, system, machine=machine)


def _of_pods(key: str, says: str, limit: float, unit: str, machine: str = "") -> Target:
    return Target(key, "control-plane", says, limit, True, unit, "pods", machine=machine)


def _of_many(key: str, says: str, limit: float, unit: str, system: str) -> Target:
    """Return a target of the largest cluster. Smaller clusters do not prove it."""
    return _at_most(key, "control-plane", f"{says}, 5,000 nodes", limit, unit, system, "5,000 nodes")


def _of_size(key: str, says: str, figure: str) -> Target:
    return Target(key, "control-plane", says, 0.2, False, "exponent of the nodes", figure)


def _of_cell(kind: str, template: str, cell: str, unit: str, limit: float) -> Target:
    """Return the target of one of the nine cells: the default or the template, at least as promised."""
    key, says = f"cell-{kind}-{cell}", f"{kind}, {cell} by default or with {template}: of Basic"
    case, at_least, machine = f"{kind}, {cell}", cell == "throughput", S5CMD if cell == "throughput" else ""
    return Target(key, "tuning", says, limit, at_least, unit, "", case, of_ratio=True, machine=machine, best=True)


_CPU_A_FILE = "ms of CPU a file"
_FIRST_BATCH = "s from the plan to the first batch"
_LOOKED_AT = "warm readers that are looked at: throughput lost"
_RIGHT = "% of seconds in which it is right"
_SEEN_MORE_OFTEN = "times that one sample is seen more often than another"
_FIRST_BYTES = "s from the plan to the first MiB"

TARGETS: Sequence[Target] = (
    _at_par("b1-native", "B1", "native mount: files/s of the bare disk", "files/s", STOKER_NATIVE, "page cache"),
    _at_par("b1-overlay", "B1", "overlay, cached: files/s of the bare disk", "files/s", STOKER_OVERLAY, "page cache"),
    _at_par("b1-cold", "B1", "first, cold epoch: objects/s of s5cmd", "files/s", STOKER, "cold"),
    _at_least("b1-fuse", "B1", "plain FUSE, warm, 4 readers", 12_000, "files/s", STOKER_FUSE, "page cache warm, 4"),
    _at_least("b1-gpu", "B1", "accelerator utilisation, native", 0.90, "accelerator utilisation", STOKER_NATIVE),
    _at_par("b2-native", "B2", "native mount: MB/s of the bare disk", "MB/s", STOKER_NATIVE),
    _at_par("b2-overlay", "B2", "overlay, cached: MB/s of the bare disk", "MB/s", STOKER_OVERLAY),
    _at_least("b2-fuse", "B2", "plain FUSE, warm", 1_000, "MB/s", STOKER_FUSE, "page cache warm"),
    _at_most("b3-hits", "B3", "hit rate off the quota", 2, "points of hits off the quota", STOKER),
    _at_most("b3-bytes", "B3", "bytes of the server off 1 - quota", 2, "% of bytes off 1 - quota", STOKER),
    _at_par("b4-native", "B4", "native mount: preads/s of the bare disk", "preads/s", STOKER_NATIVE),
    _at_par("b4-overlay", "B4", "overlay, cached: preads/s of the bare disk", "preads/s", STOKER_OVERLAY),
    _at_most("b5-walk", "B5", "second walk, overlay", 0, "requests at the FUSE server", STOKER_OVERLAY, "second walk"),
    _at_most("b5-absent", "B5", "absent names again", 0, "requests at the FUSE server", "", "absent names, second"),
    _at_most("b5-manifest", "B5", "manifest of 1,170,301 entries", 200, "MB of manifest", "", "1,170,301"),
    _at_most("b5-rss", "B5", "FUSE server with 1,170,301 entries", 200, "MB RSS of the server", "", "1,170,301"),
    _at_most("b5-tree", "B5", "tree of 1,170,301 entries", 60, "s from the end of LIST to the tree", "", "1,170,301"),
    _of_s5cmd("b6-p0", "small objects, P0", 1.0, "KiB, P0"),
    _of_s5cmd("b6-p0-large", "large objects, P0", 1.0, "MB, P0"),
    _of_s5cmd("b6-p0-md5", "large objects with an MD5 only, P0", 1.0, "MD5 only, P0"),
    _of_s5cmd("b6-p20", "P20", 1.1, ", P20"),
    _of_s5cmd("b6-p20-large", "large objects, P20", 1.0, "MB, P20"),
    _of_s5cmd("b6-pbw", "PBW", 1.2, ", PBW"),
    _at_most("b6-kill", "B6", "after kill -9", 0, "finished files fetched again"),
    _at_most("b7-node", "B7", "each byte once a node", 1.02, "x the data sent by the server, a node", STOKER),
    _at_most("sharing-sent", "peers", "the bucket sends one copy", 1.05, "x the data sent by the bucket", STOKER),
    _of_time("sharing-time", "peers", "time of all nodes, of one alone", 1.3),
    _at_most("faults-wrong", "faults", "files that are wrong", 0, "wrong files"),
    _at_most("faults-failed", "faults", "reads that fail, or are wrong", 0, "failed reads"),
    _at_most("faults-end", "faults", "runs without an end", 0, "runs without an end"),
    _of_time("faults-time", "faults", "time, of that without faults", 1.5),
    _at_par("cold-rate", "cold", "files/s of s5cmd", "files/s", STOKER),
    Target("cold-cpu", "cold", "CPU of a file that is read", 0.4, False, _CPU_A_FILE, STOKER, machine=S5CMD),
    Target("cold-warmed", "cold", "CPU of a file that is warmed", 0.4, False, _CPU_A_FILE, NOBODY_READS, machine=S5CMD),
    _at_least_of("sequential", "sequential", "one reader, no rule: MB/s of s5cmd", 0.9, "MB/s", STOKER),
    _at_most("b8-first", "B8", "first batch", 5, "first batch, % of the copy", STOKER),
    _at_most("b8-epoch", "B8", "whole lazy epoch", 1.1, "epoch, x max(copy, compute)", STOKER),
    _in_order("b9-rate", "B9", "cold epoch in a known order", 5.0, "loaders", S5CMD),
    _at_most("b9-over", "B9", "over-fetch", 5, "over-fetch, % of the epoch", ORDER_KNOWN),
    _of_fed("b9-gpu", "B9", "H100", "0.195 s"),
    _of_fed("b9-gpu-a100", "B9", "A100", "0.435 s"),
    _of_pages("pages-one", "whole, order known, page cache dropped, 1 reader", 3.0, "1 reader"),
    _of_pages("pages-four", "the same, 4 readers", 1.6, "4 readers"),
    _at_most("b10-failed", "B10", "reads that fail", 0, "failed reads"),
    _at_most("b10-wrong", "B10", "reads with wrong bytes", 0, "reads with wrong bytes"),
    _at_most("b10-native", "B10", "new opens are native", 1.0, "s from the last file to native opens"),
    _at_most("b10-stall", "B10", "longest stall", 0.5, "s of the longest stall"),
    _at_most("storm-failed", "storm", "reads that fail", 0, "failed reads"),
    _at_most("storm-wrong", "storm", "reads with wrong bytes", 0, "reads with wrong bytes"),
    _at_most("storm-stall", "storm", "longest stall", 0.5, "s of the longest stall"),
    _at_most("idle", "idle", "readers of whole versions cost the sidecar", 0, "CPU s more than when nobody reads"),
    _at_most("observer-readers", "observer", _LOOKED_AT, 1.0, "% of throughput lost", STOKER_NATIVE),
    _at_most("observer-cpu", "observer", "CPU of the observer", 1.0, "% of a core", "observer"),
    _at_least("phases-shown", "phases", "phases shown to users", 95, _RIGHT, case="phase"),
    _at_least("epochs-shown", "phases", "epochs shown to users", 95, _RIGHT, case="epoch"),
    _at_most("stall-shown", "phases", "stall shown to users, off the program's own", 2, "points of stall"),
    _at_most("memory", "memory", "all processes, 200,000 objects", 300, "MB PSS", "all processes"),
    _at_most("profiler-sum", "profiler", "the parts' sum", 5, "% off the epoch"),
    _at_most("profiler-foreseen", "profiler", "predictions", 15, "% off what is measured"),
    _at_most("quality-time", "quality", "an epoch of half the samples", 0.55, "of the whole epoch's time"),
    _at_most("quality-even", "quality", "samples are seen equally often, give or take 1", 1, _SEEN_MORE_OFTEN),
    _at_most("start-mount", "start", "stoker mount of 100 objects returns", 1.0, "s to mount"),
    _at_most("start-umount", "start", "stoker umount returns", 0.3, "s to unmount"),
    _at_most("start-sidecar", "start", "a sidecar's processes that start anew serve", 1.0, "s to serve"),
    _of_many("plane-writes", "writes in all", 50, "writes/s under churn", "operator and sidecars"),
    _of_many("plane-memory", "memory of the operator", 600, "MB RSS at most", "operator"),
    _of_many("plane-steady", "steady after a cold start", 60, "s from leading to quiet", "operator"),
    _of_plane("plane-failover", "failover", 20, "s from kill -9 until another leads"),
    _of_size("plane-report", "a report costs the same at any size", "operator: CPU ms of one report of free space"),
    _of_size("plane-refetch", "a refetch costs the same at any size", "operator: CPU ms of one refetch"),
    _of_plane("plane-webhook", "webhook at 50 pods/s while nodes report", 10, "ms, p99", "webhook", LONE_WEBHOOK),
    _of_pods("plane-warm", "pods land on warm nodes", 100, "% on warm nodes"),
    _of_pods("plane-warm-1", "where one node is warm", 100, "% on warm nodes, of which there are 1"),
    _of_pods("plane-warm-10", "where ten are", 100, "% on warm nodes, of which there are 10"),
    _of_pods("plane-releases", "releases", 200, "released/s once warm", PLAIN_CLIENT),
    _at_most("lookups", "memory", "lookups ask the server nothing", 0, "LISTs"),
    Target("model-warm", "model", "warm: time of cat", 1.05, False, "s", STOKER_NATIVE, "", True, NATIVE),
    Target("model-cold", "model", "cold beside a warm-up: time of s5cmd", 1.1, False, "s", STOKER, "beside", True),
    _at_par("retinanet-native", "retinanet", "native mount: files/s of the bare disk", "files/s", STOKER_NATIVE),
    _at_par("retinanet-overlay", "retinanet", "overlay, cached: files/s of the bare disk", "files/s", STOKER_OVERLAY),
    _at_par("retinanet-cold", "retinanet", "cold epoch: files/s of s5cmd", "files/s", STOKER),
    _at_least("retinanet-gpu", "retinanet", "one B200, native", 0.85, "accelerator utilisation", STOKER_NATIVE),
    _of_fed("retinanet-gpu-cold", "retinanet", "B200", "0.048 s", 0.85),
    _of_cell("training", "production_training", "throughput", "files/s", 1.15),
    _of_cell("training", "production_training", "latency", _FIRST_BATCH, 0.90),
    _of_cell("training", "production_training", "memory", "MB PSS", 0.85),
    _of_cell("inference", "low_latency_inference", "throughput", "MB/s", 1.10),
    _of_cell("inference", "low_latency_inference", "latency", _FIRST_BYTES, 0.80),
    _of_cell("inference", "low_latency_inference", "memory", "MB PSS", 0.90),
    _of_cell("data pipeline", "data_pipeline", "throughput", "MB/s", 1.25),
    _of_cell("data pipeline", "data_pipeline", "latency", _FIRST_BYTES, 0.85),
    _of_cell("data pipeline", "data_pipeline", "memory", "MB PSS", 0.80),
)


def judge(rows: Sequence[Row], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """Return a verdict for each target of the measured workloads."""
    run = {row.workload for row in rows}
    return judge_all(rows, [target for target in targets if target.workload in run])


def judge_all(rows: Sequence[Row], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """Return a verdict for each target, including workloads that were not run."""
    return [_verdict(target, rows) for target in targets]


def _verdict(target: Target, rows: Sequence[Row]) -> Verdict:
    figures = [(_figure(target, row, rows), row.case) for row in rows if target.is_for(row)]
    known = [(value, case) for value, case in figures if value is not None]
    if not known:
        return Verdict(target, None, "")
    value, case = (min if target.at_least != target.best else max)(known, key=lambda figure: figure[0])
    return Verdict(target, value, case, _of_machine(target, case, rows))


def _of_machine(target: Target, case: str, rows: Sequence[Row]) -> float | None:
    """Return the machine's limit in this case, in the target's unit. None if it was not measured."""
    shown = replace(target, system=target.machine, case=case)
    same = (row for row in rows if target.machine and shown.is_for(row) and row.case == case)
    return next((_figure(target, row, rows) for row in same), None)


def _figure(target: Target, row: Row, rows: Sequence[Row]) -> float | None:
    return ratio(row, rows) if target.of_ratio else row.median


def reasons(wire: Mapping[str, Mapping[str, str]]) -> dict[str, Reason]:
    """Return the reasons in the parsed reasons.toml, by the targets' keys.

    Raises ValueError for a reason without a target, which is outdated.
    """
    unknown = sorted(set(wire) - {target.key for target in TARGETS})
    if unknown:
        raise ValueError(f"reasons.toml explains {', '.join(unknown)}: no target in targets.py has this key")
    return {key: Reason(row["why"], row["remedy"]) for key, row in wire.items()}
