"""The figures of one Dataset, summed over its nodes."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Final

from stoker_api.datasets.dataset_status import MOST_NODE_ROWS, DatasetNode, SkippedKeys
from stoker_api.datasets.warm_paths import WarmPathsStatus, named_unmatched, paths_digest
from stoker_api.meta import format_bytes, format_duration, shortened
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.plans.deletion import known_leftovers
from stoker_operator.core.plans.plan import DatasetPlan, wants_warming
from stoker_operator.core.views.node_states import (
    NO_SUMMARY,
    NOWHERE,
    NodeState,
    NodeStates,
    SummaryGroup,
    is_warm,
    least_of,
    part_of,
)
from stoker_operator.core.views.resources import clamp

_MOST_SKIPPED = 20  # rows; there are six reasons
_MOST_WORD = 64  # characters of a reason or a digest
_MOST_ERROR = 256  # characters in a row; the conditions have the full message


class Targets(Mapping[str, NodeState]):
    """The states of counted nodes, sorted by name.

    It looks up a state only on access, because there may be thousands.
    """

    __slots__ = ("_held", "_names")

    def __init__(self, names: Sequence[str], held: Mapping[str, NodeState]) -> None:
        """Create the mapping for sorted node ``names``."""
        self._names: Final = names
        self._held: Final = held

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, node: str) -> NodeState:
        at = bisect_left(self._names, node)
        if at == len(self._names) or self._names[at] != node:
            raise KeyError(node)
        return self._held.get(node, NOWHERE)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one Dataset. Sizes are in bytes, speeds in bytes a second, times in seconds."""

    targets: Mapping[str, NodeState]  # counted nodes: replicas and nodes with pods
    desired: int  # wanted number of targets
    done: int  # targets that are finished, with all data or as much as fits
    warm: int  # targets with all data to warm
    files: int | None  # of the version; None before the first listing
    size: int | None
    cached: int  # bytes to warm of the version, on all targets
    speed: int  # 0 while paused
    eta: int | None  # None if no node warms data
    skipped: tuple[SkippedKeys, ...]
    limited: str = ""  # the field that selects a part to warm; "" for all files
    part: WarmPathsStatus | None = None  # that part, on the node with the least; None until a node reports it
    more: int = 0  # warm nodes that are not targets
    here: Sequence[int] = ()  # warm bytes on each target that reports the version

    @property
    def size_each(self) -> int | None:
        """Bytes for each target. None if unknown."""
        if self.limited:
            return self.part.bytes if self.part is not None else None
        return self.size

    @property
    def all_done(self) -> bool:
        """True if every wanted node is finished."""
        return 0 < self.desired == self.done

    @property
    def wanted(self) -> int:
        """Bytes that all wanted targets would hold together."""
        return clamp((self.size_each or 0) * self.desired)

    @property
    def percent(self) -> int | None:
        """Warm share of the wanted nodes, rounded down so that 100 means all. None if unknown."""
        if self.size_each is None or not self.desired:
            return None
        return self.cached * 100 // self.wanted if self.wanted else 100

    def cached_words(self) -> str:
        """Format the cached bytes, and the number of nodes if there are several. Return "" until the size is known."""
        if self.size_each is None:
            return ""
        nodes = sum(1 for size in self.here if size)
        return format_bytes(self.cached) + (f" on {nodes} nodes" if nodes > 1 else "")

    def progress(self) -> str:
        """Format ``1 of 2 nodes warm, 63% (1.2 GiB of 1.9 GiB), 20.0 MiB/s, 40s left``."""
        parts = [
            f"{self.warm} of {self.desired} nodes warm",
            f"{self.percent or 0}% ({format_bytes(self.cached)} of {format_bytes(self.wanted)})",
        ]
        if self.limited:
            parts[1] += f" of the files in {self.limited}"
        if self.speed:
            parts.append(f"{format_bytes(self.speed)}/s")
        if self.eta is not None and not self.all_done:
            parts.append(f"{format_duration(self.eta)} left")
        return ", ".join(parts)


def add_up(plan: DatasetPlan, states: NodeStates) -> Figures:
    """Return the figures of the current version. Data of other versions does not count."""
    held, names = states.of_dataset(plan.dataset.metadata.uid), target_nodes(plan)
    version, paths = plan.listing.version, plan.dataset.spec.warm.told_paths
    targets = Targets(names, held)
    groups = [group for group in _groups(plan, names, states) if group.summary.version == version]
    here = [one for one in targets.values() if one.summary.version == version] if paths else []
    parts = [part for one in here if one.reported and (part := part_of(one.reported, paths)) is not None]
    files, size = _extent(plan, states)
    each = [part.warm_bytes for part in parts] if paths else []
    moves = wants_warming(plan) and not plan.dataset.spec.warm.paused
    desired = max(len(targets), plan.placement.desired)
    phases = _done_phases(paths, here, groups)
    done = phases.total()
    etas = [row.eta for row, _ in groups if row.eta is not None] if moves and done < desired else []
    here_each = each if paths else list(chain.from_iterable(repeat(row.warm_bytes, nodes) for row, nodes in groups))
    return Figures(
        targets=targets,
        desired=desired,
        done=done,
        warm=done - phases[str(NodePhase.FULL)],
        files=files,
        size=size,
        cached=clamp(sum(here_each)),
        speed=0 if plan.dataset.spec.warm.paused else clamp(sum(row.speed * nodes for row, nodes in groups)),
        eta=max(etas, default=None),
        skipped=_skipped(plan),
        limited=plan.dataset.spec.warm.part_field if paths else "",
        part=_cut_part(least_of(parts) or _last_part(plan)),
        more=_count_more(plan, states, names),
        here=here_each,
    )


def _done_phases(paths: tuple[str, ...], here: Iterable[NodeState], groups: Iterable[SummaryGroup]) -> Counter[str]:
    """Count the finished nodes by phase: from ``here`` with paths, otherwise from ``groups``."""
    if paths:
        return Counter(one.summary.phase for one in here if _is_done(paths)(one))
    phases: Counter[str] = Counter()
    for row, nodes in groups:
        phases[row.phase] += nodes if row.done else 0
    return phases


def _count_more(plan: DatasetPlan, states: NodeStates, targets: Sequence[str]) -> int:
    """Count the warm nodes that are not targets."""
    uid, version, paths = plan.dataset.metadata.uid, plan.listing.version, plan.dataset.spec.warm.told_paths
    if not version:
        return 0
    held, is_done = states.of_dataset(uid), _is_done(paths)
    others = (held.get(node, NOWHERE) for node in states.beside(uid, targets).others)
    here = (one for one in others if one.summary.version == version and one.summary.phase != str(NodePhase.FULL))
    return sum(map(is_done, here))


def _groups(plan: DatasetPlan, targets: Sequence[str], states: NodeStates) -> Iterator[SummaryGroup]:
    """Yield each distinct summary of the targets with its number of nodes. Thousands of nodes share a few summaries."""
    uid = plan.dataset.metadata.uid
    summaries = states.summaries(uid)
    others = Counter(id(summaries[node]) for node in states.beside(uid, targets).others)
    for summary, nodes in states.groups(uid):
        if nodes > others[id(summary)]:
            yield SummaryGroup(summary, nodes - others[id(summary)])


def _is_done(paths: tuple[str, ...]) -> Callable[[NodeState], bool]:
    return lambda state: state.done and state.reported is not None and is_warm(state.reported, paths)


def _last_part(plan: DatasetPlan) -> WarmPathsStatus | None:
    """Return the last known part of the same paths and version, without warm figures, while no node reports."""
    last, status = plan.dataset.status.warm_paths, plan.dataset.status
    if (
        last is None
        or status.version != plan.listing.version
        or last.digest != paths_digest(plan.dataset.spec.warm.told_paths)
    ):
        return None
    return last.model_copy(update={"warm_files": 0, "warm_bytes": 0}) if last.digest else None


def target_nodes(plan: DatasetPlan) -> tuple[str, ...]:
    """Return the nodes that count in totals. With replicas 0 this includes warm nodes of earlier pods."""
    idle = (Role.IDLE,) if plan.placement.desired == 0 else ()
    names = plan.placement.nodes(Role.REPLICA, Role.USER, *idle)
    adopted = plan.placement.adopted if idle else ()
    return tuple(name for name in names if name not in adopted) if adopted else names


def _extent(plan: DatasetPlan, states: NodeStates) -> tuple[int | None, int | None]:
    """Return files and bytes of the current version, from the first source that has them."""
    version, result, status = plan.listing.version, plan.listing.result, plan.dataset.status
    if not version:
        return None, None
    if status.version == version and status.files is not None:
        return status.files, status.bytes  # accepted once; a node may report other values later
    if result and result.version == version:
        return result.files, result.bytes
    held, summaries = states.of_dataset(plan.dataset.metadata.uid), states.summaries(plan.dataset.metadata.uid)
    having = sorted(node for node, row in summaries.items() if row.version == version)
    reports = (held[node].reported for node in having)
    first = next((row for row in reports if row is not None and row.files), None)
    if first is not None:
        return first.files, first.bytes
    return None, None


def _skipped(plan: DatasetPlan) -> tuple[SkippedKeys, ...]:
    result = plan.listing.result
    said = result.skipped if result and (result.version or result.skipped) else plan.dataset.status.skipped
    return tuple(map(_cut, said[:_MOST_SKIPPED]))


def _cut(row: SkippedKeys) -> SkippedKeys:
    """Shorten the texts in a node's row, because a key may have any length."""
    if len(row.reason) <= _MOST_WORD and len(row.example) <= _MOST_ERROR:
        return row
    cut = {"reason": shortened(row.reason, _MOST_WORD), "example": shortened(row.example, _MOST_ERROR)}
    return row.model_copy(update=cut)


def _cut_part(part: WarmPathsStatus | None) -> WarmPathsStatus | None:
    """Shorten the paths in a node's row, as nodes do."""
    named = named_unmatched(part.unmatched_paths) if part is not None else ()
    return part if part is None or named == part.unmatched_paths else part.model_copy(update={"unmatched_paths": named})


def node_counts(plan: DatasetPlan, states: NodeStates) -> dict[str, int]:
    """Count the nodes that should have or still have the Dataset, by phase."""
    counts: Counter[str] = Counter()
    for summary, nodes in states.groups(plan.dataset.metadata.uid):
        counts[summary.phase] += nodes
    if unknown := len(states.beside(plan.dataset.metadata.uid, plan.readers()).unknown):
        counts[NO_SUMMARY.phase] += unknown
    if left := _cleaning(plan, states):
        counts[str(NodePhase.CLEANING)] += len(left)
    return dict(sorted(counts.items()))


def node_rows(plan: DatasetPlan, states: NodeStates) -> tuple[DatasetNode, ...]:
    """Return rows, sorted by name, for the nodes that need attention most. See ``MOST_NODE_ROWS``."""
    uid, chosen = plan.dataset.metadata.uid, _cleaning(plan, states)[:MOST_NODE_ROWS]
    rows, beside = states.summaries(uid), states.beside(uid, plan.readers())
    there = {summary.attention for summary, _ in states.groups(uid)}
    there |= {NO_SUMMARY.attention} if beside.unknown else set()
    # Two sorted parts, the second short, which sort quickly.
    names = sorted((*plan.readers(), *sorted(beside.others))) if beside.others else plan.readers()
    for attention in sorted(there):
        some = (name for name in names if rows.get(name, NO_SUMMARY).attention == attention)
        chosen += islice(some, MOST_NODE_ROWS - len(chosen))
    held = states.of_dataset(uid)
    return tuple(_row(name, held.get(name, NOWHERE)) for name in sorted(chosen))


def _cleaning(plan: DatasetPlan, states: NodeStates) -> list[str]:
    """Return the nodes that lost the Dataset and still have data of it."""
    left = known_leftovers(plan.dataset.status, states, plan.dataset.metadata.uid)
    return [name for name in left if name not in frozenset(plan.readers())]


def _row(name: str, state: NodeState) -> DatasetNode:
    report = state.reported
    if report is None or not state.assigned:
        return DatasetNode(name=name, phase=str(NodePhase.CLEANING) if state.leftover else state.summary.phase)
    eta = format_duration(report.eta_seconds) if report.eta_seconds and report.phase is NodePhase.WARMING else ""
    here = report.warm_paths or report
    return DatasetNode(
        name=name,
        phase=str(report.phase),
        version=report.version[:_MOST_WORD],
        warm_files=here.warm_files,
        warm_bytes=here.warm_bytes,
        bytes_per_second=report.bytes_per_second,
        eta=eta,
        mode=str(report.mode) if report.mode else "",
        last_error=shortened(_last_error(report), _MOST_ERROR),
    )


def _last_error(report: NodeDatasetStatus) -> str:
    if report.failing_reads is not None:
        return report.failing_reads.sentence("reads of pods")
    return report.error.message if report.error else ""
