"""The targets of the benchmark plan, judged by the figures of a run and by nothing else. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.report import Row, ratio
from bench.systems import (
    DISK_ALONE,
    IN_MEMORY,
    LONE_WEBHOOK,
    NOBODY_READS,
    ORDER_KNOWN,
    PLAIN_CLIENT,
    S5CMD,
    STOKER,
    STOKER_FUSE,
    STOKER_NATIVE,
    STOKER_OVERLAY,
    TUNED,
)


@dataclass(frozen=True)
class Target:
    """A figure that a workload should reach, and the rows that are judged by it; the worst of them decides.

    A row is judged when it has the target's ``unit`` and ``system`` and its case contains ``case``; an empty one is for
    all. With ``of_ratio`` the row's ratio to its reference counts, not its figure. ``key`` finds the reason in
    reasons.toml. ``machine`` is the system whose row of the same case and unit says what the machine gives at most.
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

    def reached(self, value: float, wanted: float) -> bool:
        """Return whether a figure is as good as another one."""
        return value >= wanted if self.at_least else value <= wanted

    def is_for(self, row: Row) -> bool:
        """Return whether this row is judged by the target."""
        same = (row.workload, row.unit) == (self.workload, self.unit) and self.system in ("", row.system)
        return same and self.case in row.case


@dataclass(frozen=True)
class Verdict:
    """What a target's worst row measured, and in which case; None and "" when nothing of it was measured.

    ``machine``: what the machine gives in that case, where the target names who shows it.
    """

    target: Target
    value: float | None
    case: str
    machine: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None when it was not measured."""
        return None if self.value is None else self.target.reached(self.value, self.target.limit)


@dataclass(frozen=True)
class Reason:
    """Why a target is missed, as measured, and what would remedy it."""

    why: str
    remedy: str


def _at_least(key: str, workload: str, says: str, limit: float, unit: str, system: str = "", case: str = "") -> Target:
    return Target(key, workload, says, limit, True, unit, system, case)


def _at_most(key: str, workload: str, says: str, limit: float, unit: str, system: str = "", case: str = "") -> Target:
    return Target(key, workload, says, limit, False, unit, system, case)


def _of_native(
    key: str, workload: str, says: str, unit: str, system: str, case: str = "", limit: float = 0.95
) -> Target:
    return Target(key, workload, says, limit, True, unit, system, case, of_ratio=True)


def _in_order(key: str, workload: str, says: str, limit: float, case: str) -> Target:
    says = f"{says}: files/s of a copy"
    return Target(key, workload, says, limit, True, "files/s", ORDER_KNOWN, case, of_ratio=True, machine=DISK_ALONE)


def _of_s5cmd(key: str, what: str, limit: float, case: str) -> Target:
    return Target(key, "B6", f"warm-up, {what}: time of s5cmd", limit, False, "s", STOKER, case, of_ratio=True)


def _of_first_batch(key: str, accelerator: str, step: str) -> Target:
    """Return a target of a training with little memory; with all in memory its loader shows what it costs by itself."""
    says = f"first batch of later epochs, memory for a tenth, {accelerator} class"
    case = f"a step of {step}"
    unit = "first batch of later epochs, x a middle one"
    return Target(key, "scarce", says, 1.2, False, unit, ORDER_KNOWN, case, machine=IN_MEMORY)


def _of_fed(key: str, accelerator: str, step: str) -> Target:
    """Return a target of a cold epoch; what s5cmd's rate would allow is as far as its bandwidth goes."""
    says, case = f"accelerator utilisation, cold, {accelerator} class", f"a step of {step}"
    return Target(key, "B9", says, 0.95, True, "accelerator utilisation", ORDER_KNOWN, case, machine=S5CMD)


def _of_many(key: str, says: str, limit: float, unit: str, system: str) -> Target:
    """Return a target of the largest cluster: a smaller one that is within it says nothing."""
    return _at_most(key, "control-plane", f"{says}, 5,000 nodes", limit, unit, system, "5,000 nodes")


def _of_size(key: str, says: str, figure: str) -> Target:
    return Target(key, "control-plane", says, 0.2, False, "exponent of the nodes", figure)


_CPU_A_FILE = "ms of CPU a file"

TARGETS: Sequence[Target] = (
    _of_native("b1-native", "B1", "native mount: files/s of the bare disk", "files/s", STOKER_NATIVE, "page cache"),
    _of_native(
        "b1-overlay", "B1", "overlay, cached: files/s of the bare disk", "files/s", STOKER_OVERLAY, "page cache"
    ),
    Target(
        "b1-cold", "B1", "first, cold epoch: objects/s of s5cmd", 0.95, True, "files/s", STOKER, "cold", of_ratio=True
    ),
    _at_least("b1-fuse", "B1", "plain FUSE, warm, 4 readers", 12_000, "files/s", STOKER_FUSE, "page cache warm, 4"),
    _at_least("b1-gpu", "B1", "accelerator utilisation, native", 0.90, "accelerator utilisation", STOKER_NATIVE),
    _of_native("b2-native", "B2", "native mount: MB/s of the bare disk", "MB/s", STOKER_NATIVE),
    _of_native("b2-overlay", "B2", "overlay, cached: MB/s of the bare disk", "MB/s", STOKER_OVERLAY),
    _at_least("b2-fuse", "B2", "plain FUSE, warm", 1_000, "MB/s", STOKER_FUSE, "page cache warm"),
    _at_most("b3-hits", "B3", "hit rate off the quota", 2, "points of hits off the quota", STOKER),
    _at_most("b3-bytes", "B3", "bytes of the server off 1 - quota", 2, "% of bytes off 1 - quota", STOKER),
    _of_native("b4-native", "B4", "native mount: preads/s of the bare disk", "preads/s", STOKER_NATIVE),
    _of_native("b4-overlay", "B4", "overlay, cached: preads/s of the bare disk", "preads/s", STOKER_OVERLAY),
    _at_most("b5-walk", "B5", "second walk, overlay", 0, "requests at the FUSE server", STOKER_OVERLAY, "second walk"),
    _at_most("b5-absent", "B5", "absent names again", 0, "requests at the FUSE server", "", "absent names, second"),
    _at_most("b5-manifest", "B5", "manifest of 1,000,000 entries", 200, "MB of manifest", "", "1,000,000"),
    _at_most("b5-rss", "B5", "FUSE server with 1,000,000 entries", 200, "MB RSS of the server", "", "1,000,000"),
    _at_most("b5-tree", "B5", "tree of 1,000,000 entries", 60, "s from the end of LIST to the tree", "", "1,000,000"),
    _of_s5cmd("b6-p0", "small objects, P0", 1.0, "KiB, P0"),
    _of_s5cmd("b6-p0-large", "large objects, P0", 1.0, "MB, P0"),
    _of_s5cmd("b6-p0-md5", "large objects with an MD5 only, P0", 1.0, "MD5 only, P0"),
    _of_s5cmd("b6-p20", "P20", 1.1, ", P20"),
    _of_s5cmd("b6-p20-large", "large objects, P20", 1.0, "MB, P20"),
    _of_s5cmd("b6-pbw", "PBW", 1.2, ", PBW"),
    _at_most("b6-kill", "B6", "after kill -9", 0, "finished files fetched again"),
    _at_most("b7-node", "B7", "each byte once a node", 1.02, "x the data sent by the server, a node", STOKER),
    _at_most("sharing-sent", "neighbours", "the bucket sends one copy", 1.05, "x the data sent by the bucket", STOKER),
    Target(
        "sharing-time",
        "neighbours",
        "time of all nodes, of one alone",
        1.3,
        False,
        "s until all have it",
        STOKER,
        of_ratio=True,
    ),
    _at_most("faults-wrong", "faults", "files that are wrong", 0, "wrong files"),
    _at_most("faults-failed", "faults", "reads that fail, or are wrong", 0, "failed reads"),
    _at_most("faults-end", "faults", "runs without an end", 0, "runs without an end"),
    Target(
        "faults-time",
        "faults",
        "time, of that without faults",
        1.5,
        False,
        "s until all have it",
        STOKER,
        of_ratio=True,
    ),
    _at_most("herd-gets", "herd", "one copy for all", 1.1, "GETs at the bucket, x the pieces", STOKER, "all alive"),
    _at_most(
        "herd-even",
        "herd",
        "nodes ask equally often",
        2.0,
        "GETs of one node at most, x the median",
        STOKER,
        "all alive",
    ),
    _of_native(
        "second-small", "second", "second epoch, 100 KiB: files/s of a copy", "files/s", STOKER_OVERLAY, "100 KiB"
    ),
    _of_native(
        "second-tiny",
        "second",
        "second epoch, 4 KiB, page cache warm: files/s of a copy",
        "files/s",
        STOKER_OVERLAY,
        "4 KiB, page cache warm",
        limit=0.8,
    ),
    Target("cold-rate", "cold", "files/s of s5cmd", 0.95, True, "files/s", STOKER, of_ratio=True),
    Target("cold-cpu", "cold", "CPU of a file that is read", 0.4, False, _CPU_A_FILE, STOKER, machine=S5CMD),
    Target("cold-warmed", "cold", "CPU of a file that is warmed", 0.4, False, _CPU_A_FILE, NOBODY_READS, machine=S5CMD),
    _of_native("second-whole", "second", "second epoch, made whole: files/s of a copy", "files/s", STOKER_NATIVE),
    _at_most("b8-first", "B8", "first batch", 5, "first batch, % of the copy", STOKER),
    _at_most("b8-epoch", "B8", "whole lazy epoch", 1.1, "epoch, x max(copy, compute)", STOKER),
    Target(
        "b9-rate",
        "B9",
        "cold epoch in a known order",
        5.0,
        True,
        "files/s",
        ORDER_KNOWN,
        "loaders",
        of_ratio=True,
        machine=S5CMD,
    ),
    _at_most("b9-over", "B9", "over-fetch", 5, "over-fetch, % of the epoch", ORDER_KNOWN),
    _of_fed("b9-gpu", "H100", "0.195 s"),
    _of_fed("b9-gpu-a100", "A100", "0.435 s"),
    _in_order(
        "pages-one", "pages", "whole, order known, page cache dropped, 1 reader", 3.0, "page cache dropped, 1 reader"
    ),
    _in_order("pages-four", "pages", "the same, 4 readers", 1.6, "page cache dropped, 4 readers"),
    _in_order("scarce-epochs", "scarce", "ten epochs with memory for a tenth", 1.3, "memory for a tenth"),
    _of_first_batch("scarce-first", "H100", "195 ms"),
    _of_first_batch("scarce-first-a100", "A100", "435 ms"),
    _at_most("b10-failed", "B10", "reads that fail", 0, "failed reads"),
    _at_most("b10-wrong", "B10", "reads with wrong bytes", 0, "reads with wrong bytes"),
    _at_most("b10-native", "B10", "new opens are native", 1.0, "s from the last file to native opens"),
    _at_most("b10-stall", "B10", "longest stall", 0.5, "s of the longest stall"),
    _at_most("storm-failed", "storm", "reads that fail", 0, "failed reads"),
    _at_most("storm-wrong", "storm", "reads with wrong bytes", 0, "reads with wrong bytes"),
    _at_most("storm-stall", "storm", "longest stall", 0.5, "s of the longest stall"),
    _at_most("idle", "idle", "readers of whole versions cost the sidecar", 0, "CPU s more than when nobody reads"),
    _at_most(
        "observer-readers",
        "observer",
        "warm readers that are looked at: throughput lost",
        1.0,
        "% of throughput lost",
        "Stoker native",
    ),
    _at_most("observer-cpu", "observer", "CPU of the observer", 1.0, "% of a core", "observer"),
    _at_most("memory", "memory", "all processes, 200,000 objects", 300, "MB PSS", "all processes"),
    _at_most("profiler-sum", "profiler", "the parts' sum", 5, "% off the epoch"),
    _at_most("profiler-foreseen", "profiler", "predictions", 15, "% off what is measured"),
    _at_most("quality-time", "quality", "an epoch of half the samples", 0.55, "of the whole epoch's time"),
    _at_most(
        "quality-even",
        "quality",
        "samples are seen equally often, give or take 1",
        1,
        "times that one sample is seen more often than another",
    ),
    _at_most("start-mount", "start", "stoker mount of 100 objects returns", 1.0, "s to mount"),
    _at_most("start-umount", "start", "stoker umount returns", 0.3, "s to unmount"),
    _at_most("start-sidecar", "start", "a sidecar's processes that start anew serve", 1.0, "s to serve"),
    _at_least(
        "adaptive", "adaptive", "found by itself, of the best fixed value", 0.9, "of the best fixed value", TUNED
    ),
    _at_most(
        "plane-blocked", "control-plane", "longest blocking of the loop", 0.05, "s of the longest blocking", "operator"
    ),
    _of_many("plane-writes", "writes in all", 50, "writes/s under churn", "operator and sidecars"),
    _of_many("plane-memory", "memory of the operator", 600, "MB RSS at most", "operator"),
    _of_many("plane-steady", "steady after a cold start", 60, "s from leading to quiet", "operator"),
    _at_most("plane-failover", "control-plane", "failover", 20, "s from kill -9 until another leads", "operator"),
    _of_size("plane-report", "a report costs the same at any size", "operator: CPU ms of one report of free space"),
    _of_size("plane-refetch", "a refetch costs the same at any size", "operator: CPU ms of one refetch"),
    replace(
        _at_most("plane-webhook", "control-plane", "webhook at 50 pods/s while nodes report", 10, "ms, p99", "webhook"),
        machine=LONE_WEBHOOK,
    ),
    _at_least("plane-warm", "control-plane", "pods land on warm nodes", 100, "% on warm nodes", "pods"),
    _at_least(
        "plane-warm-1", "control-plane", "where one node is warm", 100, "% on warm nodes, of which there are 1", "pods"
    ),
    _at_least("plane-warm-10", "control-plane", "where ten are", 100, "% on warm nodes, of which there are 10", "pods"),
    replace(
        _at_least("plane-releases", "control-plane", "releases", 200, "released/s once warm", "pods"),
        machine=PLAIN_CLIENT,
    ),
    _at_most("lookups", "memory", "lookups ask the server nothing", 0, "LISTs"),
)


def judge(rows: Sequence[Row], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """Return a verdict for each target whose workload was run."""
    run = {row.workload for row in rows}
    return [_verdict(target, rows) for target in targets if target.workload in run]


def _verdict(target: Target, rows: Sequence[Row]) -> Verdict:
    figures = [(_figure(target, row, rows), row.case) for row in rows if target.is_for(row)]
    known = [(value, case) for value, case in figures if value is not None]
    if not known:
        return Verdict(target, None, "")
    value, case = (min if target.at_least else max)(known, key=lambda figure: figure[0])
    return Verdict(target, value, case, _of_machine(target, case, rows))


def _of_machine(target: Target, case: str, rows: Sequence[Row]) -> float | None:
    """Return what the machine gives in this case by the target's measure; None where nobody showed it."""
    shown = replace(target, system=target.machine, case=case)
    same = (row for row in rows if target.machine and shown.is_for(row) and row.case == case)
    return next((_figure(target, row, rows) for row in same), None)


def _figure(target: Target, row: Row, rows: Sequence[Row]) -> float | None:
    return ratio(row, rows) if target.of_ratio else row.median


def reasons(wire: Mapping[str, Mapping[str, str]]) -> dict[str, Reason]:
    """Return the reasons in the parsed reasons.toml, by the targets' keys.

    Raises ValueError for a reason of no target, which would be a leftover.
    """
    unknown = sorted(set(wire) - {target.key for target in TARGETS})
    if unknown:
        raise ValueError(
            f"reasons.toml explains {', '.join(unknown)}, which no target of bench/targets.py has as its key"
        )
    return {key: Reason(row["why"], row["remedy"]) for key, row in wire.items()}
