"""The numbers of one dataset, added up over its nodes."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker_api.dataset import DatasetNode, SkippedKeys
from stoker_api.meta import format_bytes, format_duration
from stoker_operator.core.int64 import clamp
from stoker_operator.core.node_states import NodeState, NodeStates
from stoker_operator.core.placement import Role
from stoker_operator.core.plan import DatasetPlan


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of one dataset: sizes in bytes, speeds in bytes a second, times in seconds."""

    targets: Mapping[str, NodeState]  # nodes that count: replicas and nodes with pods
    desired: int  # targets that there should be
    done: int  # targets that have all they will have
    files: int | None  # of the version; None until it was listed
    size: int | None
    cached: int  # bytes of the version on all targets
    speed: int
    eta: int | None
    skipped: tuple[SkippedKeys, ...]

    @property
    def all_done(self) -> bool:
        """True when every node that should have it has it."""
        return 0 < self.desired == self.done

    @property
    def wanted(self) -> int:
        """Bytes that all desired targets would hold together."""
        return clamp((self.size or 0) * self.desired)

    @property
    def percent(self) -> int | None:
        """Warm share over the wanted nodes, rounded down so that 100 means all; None when there is nothing to say."""
        if self.size is None or not self.desired:
            return None
        return self.cached * 100 // self.wanted if self.wanted else 100

    def progress(self) -> str:
        """Write ``1 of 2 nodes warm, 63% (1.2 GiB of 1.9 GiB), 20.0 MiB/s, 40s left``."""
        parts = [
            f"{self.done} of {self.desired} nodes warm",
            f"{self.percent or 0}% ({format_bytes(self.cached)} of {format_bytes(self.wanted)})",
        ]
        if self.speed:
            parts.append(f"{format_bytes(self.speed)}/s")
        if self.eta is not None and not self.all_done:
            parts.append(f"{format_duration(self.eta)} left")
        return ", ".join(parts)


def add_up(plan: DatasetPlan, states: NodeStates) -> Figures:
    """Return the figures of the current version; what nodes hold of other versions does not count."""
    held = states.of_dataset(plan.dataset.metadata.uid)
    targets = {node: held.get(node, NodeState()) for node in target_nodes(plan)}
    reports = [h.reported for h in targets.values() if h.reported and h.reported.version == plan.listing.version]
    files, size = _extent(plan, held)
    etas = [report.eta_seconds for report in reports if report.eta_seconds is not None]
    return Figures(
        targets=targets,
        desired=max(len(targets), plan.placement.desired),
        done=sum(
            h.done and h.reported is not None and h.reported.version == plan.listing.version for h in targets.values()
        ),
        files=files,
        size=size,
        cached=clamp(sum(report.warm_bytes for report in reports)),
        speed=clamp(sum(report.bytes_per_second for report in reports)),
        eta=max(etas) if etas else None,
        skipped=_skipped(plan),
    )


def target_nodes(plan: DatasetPlan) -> tuple[str, ...]:
    """Return nodes that count in totals; with replicas 0 also those that are warm from earlier pods."""
    idle = (Role.IDLE,) if plan.placement.desired == 0 else ()
    return plan.placement.nodes(Role.REPLICA, Role.USER, *idle)


def _extent(plan: DatasetPlan, held: Mapping[str, NodeState]) -> tuple[int | None, int | None]:
    """Find files and bytes of the current version, from whoever knows."""
    version, result, status = plan.listing.version, plan.listing.result, plan.dataset.status
    if not version:
        return None, None
    if result and result.version == version:
        return result.files, result.bytes
    for state in held.values():
        if state.reported and state.reported.version == version and state.reported.files:
            return state.reported.files, state.reported.bytes
    return (status.files, status.bytes) if status.version == version else (None, None)


def _skipped(plan: DatasetPlan) -> tuple[SkippedKeys, ...]:
    result = plan.listing.result
    return result.skipped if result and (result.version or result.skipped) else plan.dataset.status.skipped


def node_rows(plan: DatasetPlan, states: NodeStates) -> tuple[DatasetNode, ...]:
    """Make one row for each node that was given the dataset or still has it."""
    held = states.of_dataset(plan.dataset.metadata.uid)
    return tuple(_row(name, held.get(name, NodeState())) for name in sorted({*plan.nodes(), *held}))


def _row(name: str, state: NodeState) -> DatasetNode:
    report = state.reported
    if report is None:
        return DatasetNode(name=name, phase="Pending")
    eta = format_duration(report.eta_seconds) if report.eta_seconds else ""
    return DatasetNode(
        name=name,
        phase=str(report.phase),
        version=report.version,
        warm_files=report.warm_files,
        warm_bytes=report.warm_bytes,
        bytes_per_second=report.bytes_per_second,
        eta=eta,
        mode=str(report.mode) if report.mode else "",
        last_error=report.error.message if report.error else "",
    )
