"""The numbers of one dataset, added up over its nodes."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Final

from stoker_api.dataset_status import MOST_NODE_ROWS, DatasetNode, SkippedKeys
from stoker_api.meta import format_bytes, format_duration, shortened
from stoker_api.nodecache import NodePhase
from stoker_api.warm_paths import WarmPathsStatus, paths_digest
from stoker_operator.core.int64 import clamp
from stoker_operator.core.node_roles import Role
from stoker_operator.core.node_states import NO_SUMMARY, NOWHERE, NodeState, NodeStates, SummaryGroup
from stoker_operator.core.plan import DatasetPlan
from stoker_operator.core.warm_parts import is_warm, least_of, part_of

_MOST_ERROR = 256  # characters in a row; the conditions have the whole sentence


class Targets(Mapping[str, NodeState]):
    """The states of nodes that count, by their names in order. A look at thousands is for who asks for all of them."""

    __slots__ = ("_held", "_names")

    def __init__(self, names: Sequence[str], held: Mapping[str, NodeState]) -> None:
        """Show the nodes ``names``, which are sorted."""
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
    """The numbers of one dataset: sizes in bytes, speeds in bytes a second, times in seconds."""

    targets: Mapping[str, NodeState]  # nodes that count: replicas and nodes with pods
    desired: int  # targets that there should be
    done: int  # targets that have all they will have
    files: int | None  # of the version; None until it was listed
    size: int | None
    cached: int  # bytes of the version, or of what of it is to be warm, on all targets
    speed: int
    eta: int | None
    skipped: tuple[SkippedKeys, ...]
    limited: str = ""  # the field that names what of it is to be warm; empty: all of it is
    part: WarmPathsStatus | None = None  # what that is, on the node that has least; None until a node says
    here: Sequence[int] = ()  # bytes of what is to be warm on each target; of one that is warm that is known without

    @property
    def size_each(self) -> int | None:
        """Bytes that each target should hold; None until that is known."""
        if self.limited:
            return self.part.bytes if self.part is not None else None
        return self.size

    @property
    def all_done(self) -> bool:
        """True when every node that should have it has it."""
        return 0 < self.desired == self.done

    @property
    def wanted(self) -> int:
        """Bytes that all desired targets would hold together."""
        return clamp((self.size_each or 0) * self.desired)

    @property
    def percent(self) -> int | None:
        """Warm share over the wanted nodes, rounded down so that 100 means all; None when there is nothing to say."""
        if self.size_each is None or not self.desired:
            return None
        return self.cached * 100 // self.wanted if self.wanted else 100

    def progress(self) -> str:
        """Write ``1 of 2 nodes warm, 63% (1.2 GiB of 1.9 GiB), 20.0 MiB/s, 40s left``."""
        parts = [
            f"{self.done} of {self.desired} nodes warm",
            f"{self.percent or 0}% ({format_bytes(self.cached)} of {format_bytes(self.wanted)})",
        ]
        if self.limited:
            parts[1] += f" of what {self.limited} names"
        if self.speed:
            parts.append(f"{format_bytes(self.speed)}/s")
        if self.eta is not None and not self.all_done:
            parts.append(f"{format_duration(self.eta)} left")
        return ", ".join(parts)


def add_up(plan: DatasetPlan, states: NodeStates) -> Figures:
    """Return the figures of the current version; what nodes hold of other versions does not count."""
    held, names = states.of_dataset(plan.dataset.metadata.uid), target_nodes(plan)
    version, paths = plan.listing.version, plan.dataset.spec.warm.told_paths
    targets = Targets(names, held)
    groups = [group for group in _groups(plan, names, states) if group.summary.version == version]
    here = [one for one in targets.values() if one.summary.version == version] if paths else []
    parts = [part for one in here if one.reported and (part := part_of(one.reported, paths)) is not None]
    files, size = _extent(plan, states)
    each = [part.warm_bytes for part in parts] if paths else []
    here_each = each if paths else list(chain.from_iterable(repeat(row.warm_bytes, nodes) for row, nodes in groups))
    return Figures(
        targets=targets,
        desired=max(len(targets), plan.placement.desired),
        done=sum(map(_is_done(paths), here)) if paths else sum(nodes for row, nodes in groups if row.done),
        files=files,
        size=size,
        cached=clamp(sum(here_each)),
        speed=clamp(sum(row.speed * nodes for row, nodes in groups)),
        eta=max((row.eta for row, _ in groups if row.eta is not None), default=None),
        skipped=_skipped(plan),
        limited=plan.dataset.spec.warm.part_field if paths else "",
        part=least_of(parts) or _last_part(plan),
        here=here_each,
    )


def _groups(plan: DatasetPlan, targets: Sequence[str], states: NodeStates) -> Iterator[SummaryGroup]:
    """Yield what targets say, each once with the number of those that do: thousands say a few things."""
    uid = plan.dataset.metadata.uid
    summaries = states.summaries(uid)
    others = Counter(id(summaries[node]) for node in states.beside(uid, targets).others)
    for summary, nodes in states.groups(uid):
        if nodes > others[id(summary)]:
            yield SummaryGroup(summary, nodes - others[id(summary)])


def _is_done(paths: tuple[str, ...]) -> Callable[[NodeState], bool]:
    return lambda state: state.done and state.reported is not None and is_warm(state.reported, paths)


def _last_part(plan: DatasetPlan) -> WarmPathsStatus | None:
    """Return what was known last of the same paths and version, without what is here: no node says at this moment."""
    last, status = plan.dataset.status.warm_paths, plan.dataset.status
    if (
        last is None
        or status.version != plan.listing.version
        or last.digest != paths_digest(plan.dataset.spec.warm.told_paths)
    ):
        return None
    return last.model_copy(update={"warm_files": 0, "warm_bytes": 0}) if last.digest else None


def target_nodes(plan: DatasetPlan) -> tuple[str, ...]:
    """Return nodes that count in totals; with replicas 0 also those that are warm from earlier pods."""
    idle = (Role.IDLE,) if plan.placement.desired == 0 else ()
    return plan.placement.nodes(Role.REPLICA, Role.USER, *idle)


def _extent(plan: DatasetPlan, states: NodeStates) -> tuple[int | None, int | None]:
    """Find files and bytes of the current version, from whoever knows."""
    version, result, status = plan.listing.version, plan.listing.result, plan.dataset.status
    if not version:
        return None, None
    if result and result.version == version:
        return result.files, result.bytes
    held, summaries = states.of_dataset(plan.dataset.metadata.uid), states.summaries(plan.dataset.metadata.uid)
    having = sorted(node for node, row in summaries.items() if row.version == version)
    reports = (held[node].reported for node in having)
    first = next((row for row in reports if row is not None and row.files), None)
    if first is not None:
        return first.files, first.bytes
    return (status.files, status.bytes) if status.version == version else (None, None)


def _skipped(plan: DatasetPlan) -> tuple[SkippedKeys, ...]:
    result = plan.listing.result
    return result.skipped if result and (result.version or result.skipped) else plan.dataset.status.skipped


def node_counts(plan: DatasetPlan, states: NodeStates) -> dict[str, int]:
    """Count the nodes that were given the dataset or still have it, by what they do."""
    counts: Counter[str] = Counter()
    for summary, nodes in states.groups(plan.dataset.metadata.uid):
        counts[summary.phase] += nodes
    if unknown := len(states.beside(plan.dataset.metadata.uid, plan.nodes()).unknown):
        counts[NO_SUMMARY.phase] += unknown
    return dict(sorted(counts.items()))


def node_rows(plan: DatasetPlan, states: NodeStates) -> tuple[DatasetNode, ...]:
    """Make rows, sorted by name, for those nodes that need attention most: see ``MOST_NODE_ROWS``."""
    uid, chosen = plan.dataset.metadata.uid, list[str]()
    rows, beside = states.summaries(uid), states.beside(uid, plan.nodes())
    there = {summary.attention for summary, _ in states.groups(uid)}
    there |= {NO_SUMMARY.attention} if beside.unknown else set()
    # Two sorted parts, of which the second is short: that is no search for the order of thousands.
    names = sorted((*plan.nodes(), *sorted(beside.others))) if beside.others else plan.nodes()
    for attention in sorted(there):
        some = (name for name in names if rows.get(name, NO_SUMMARY).attention == attention)
        chosen += islice(some, MOST_NODE_ROWS - len(chosen))
    held = states.of_dataset(uid)
    return tuple(_row(name, held.get(name, NOWHERE)) for name in sorted(chosen))


def _row(name: str, state: NodeState) -> DatasetNode:
    report = state.reported
    if report is None:
        return DatasetNode(name=name, phase=str(NodePhase.PENDING))
    eta = format_duration(report.eta_seconds) if report.eta_seconds else ""
    here = report.warm_paths or report
    return DatasetNode(
        name=name,
        phase=str(report.phase),
        version=report.version,
        warm_files=here.warm_files,
        warm_bytes=here.warm_bytes,
        bytes_per_second=report.bytes_per_second,
        eta=eta,
        mode=str(report.mode) if report.mode else "",
        last_error=shortened(report.error.message, _MOST_ERROR) if report.error else "",
    )
