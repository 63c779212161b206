"""Conditions for requests other than bytes on disk: named nodes, pages, memory."""

from collections.abc import Iterable, Mapping

from stoker_api.datasets.cache_memory import CacheMemory, PinnedMemory, WarmedPages
from stoker_api.datasets.dataset import Dataset, Warm
from stoker_api.datasets.warm_paths import WarmPathsStatus
from stoker_api.meta import format_bytes
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import NodeError
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.placement.node_rules import missing_nodes, missing_sentence
from stoker_operator.core.plans.plan import DatasetPlan, pages_request, wants_warming
from stoker_operator.core.status.figures import Figures
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.conditions import ConditionSet
from stoker_operator.core.views.node_states import NodeState, NodeStates, knows_no_list


def set_paths_found(out: ConditionSet, warm: Warm, figures: Figures) -> None:
    """Set the condition PathsFound. Set nothing without paths or before a node reports them."""
    part, one = figures.part, "line" if warm.list is not None else "path"
    if (error := _list_error(warm, figures)) is not None:
        out.set(ConditionType.PATHS_FOUND, False, Reason.WARM_LIST_INVALID, error.message)
    elif part is not None and part.unmatched:
        out.set(ConditionType.PATHS_FOUND, False, Reason.PATH_NOT_FOUND, unmatched_sentence(warm, part))
    elif part is not None:
        found = f"every {one} of {warm.part_field} matches files"
        out.set(ConditionType.PATHS_FOUND, True, Reason.PATHS_FOUND, found)


def unmatched_sentence(warm: Warm, part: WarmPathsStatus) -> str:
    """Return the message about paths that match no file, with the fix."""
    named = ", ".join(f"'{path}'" for path in part.unmatched_paths)
    more = part.unmatched - len(part.unmatched_paths)
    others = f" and {more} more" if more > 0 else ""
    return (
        f"{warm.part_field}: no files match {named}{others} in this version: paths are below the Dataset's folder, and "
        "upper and lower case differ; correct them"
    )


def outdated_nodes(warm: Warm, figures: Figures) -> list[str]:
    """Return the nodes whose old sidecars fetched only the list, which they take for a path. Sorted by name."""
    if warm.list is None:
        return []
    reports = ((name, state.reported) for name, state in figures.targets.items())
    return sorted(name for name, row in reports if row is not None and knows_no_list(row, warm.told_paths))


def outdated_sentence(node: str) -> str:
    """Return the message for such a node, with the fix."""
    return f"{node}: its sidecar is too old for warm.list and warms nothing: upgrade it"


def _list_error(warm: Warm, figures: Figures) -> NodeError | None:
    """Return a node's error about an invalid list. One node is enough, because all have the same file."""
    if warm.list is None:
        return None
    errors = (state.summary.error for _, state in sorted(figures.targets.items()))
    return next((one for one in errors if one is not None and one.reason == Reason.WARM_LIST_INVALID), None)


_NAMED = 3  # nodes in a message; the rest is only counted


def set_moving(out: ConditionSet, view: ClusterView, plan: DatasetPlan, states: NodeStates, figures: Figures) -> None:
    """Set the condition Moving. It says whether other nodes have the data of draining nodes.

    Set nothing if no node drains, no replica is wanted, or the Dataset is not warmed.
    """
    uid, desired = plan.dataset.metadata.uid, plan.placement.desired
    leaving = [node for node in plan.placement.nodes(Role.LEAVING) if states.get(uid, node).sure_bytes]
    if not leaving or not desired or not wants_warming(plan):
        return
    done = min(figures.done, desired)
    going = f"{_are(leaving)} leaving ({_why(view, leaving)})"
    where = f"{done} of {desired} replicas are complete on nodes that stay; {going}"
    if figures.done >= desired:
        out.set(ConditionType.MOVING, False, Reason.HANDED_OVER, f"{where}, and can leave")
        return
    coming = [node for node, state in figures.targets.items() if not state.done]
    short = len(figures.targets) < desired
    takes = f"{_named(coming)} take{'s' if len(coming) == 1 else ''} over" if coming else ""
    lack = "no other node can take it over: add one, or wait" if short else ""
    out.set(ConditionType.MOVING, True, Reason.NODE_LEAVING, "; ".join(filter(None, (where, takes, lack))))


def _are(nodes: list[str]) -> str:
    return f"{_named(nodes)} {'is' if len(nodes) == 1 else 'are'}"


def _named(nodes: list[str]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(nodes[:_NAMED]) + more


def _why(view: ClusterView, nodes: list[str]) -> str:
    reasons = dict.fromkeys(view.nodes[node].leaving for node in nodes if node in view.nodes)
    return "; ".join(list(reasons)[:_NAMED])


_NODES_NAMED = 3


def asks_for_memory(memory: CacheMemory) -> bool:
    """Return True if a Dataset requests memory."""
    return memory.names or bool(memory.bytes)


def memory_verdict(rows: Mapping[str, PinnedMemory]) -> tuple[bool, Reason, str]:
    """Return status, reason and message for the data that nodes, by name, keep in memory."""
    short = {node: row.message for node, row in sorted(rows.items()) if row.message}
    if short:
        return False, Reason.MEMORY_SHORT, _listed(f"{node}: {why}" for node, why in short.items())
    used = [row for row in rows.values() if row.wanted_bytes or row.wanted_names]
    if not used:
        return False, Reason.MEMORY_NOT_USED, "nodes keep it in memory while a pod mounts it, and no pod does"
    held, names = sum(row.bytes for row in used), sum(row.names for row in used)
    wanted, wanted_names = sum(row.wanted_bytes for row in used), sum(row.wanted_names for row in used)
    figures = [
        f"{format_bytes(held)} of {format_bytes(wanted)}" if wanted else "",
        f"{names:,} of {wanted_names:,} names" if wanted_names else "",
    ]
    nodes = "1 node" if len(used) == 1 else f"{len(used)} nodes"
    whole = held >= wanted and names >= wanted_names
    reason = Reason.MEMORY_PINNED if whole else Reason.WARMING
    return whole, reason, f"{' and '.join(filter(None, figures))} in the memory of {nodes}"


def _listed(sentences: Iterable[str]) -> str:
    every = list(sentences)
    more = f"; and {len(every) - _NODES_NAMED} more nodes" if len(every) > _NODES_NAMED else ""
    return "; ".join(every[:_NODES_NAMED]) + more


def pages_verdict(request: str, rows: Mapping[str, WarmedPages | None]) -> tuple[bool, Reason, str]:
    """Return status, reason and message for the page cache of the nodes, by name, that should fill it."""
    done = [row for row in rows.values() if row is not None and row.done and row.request == request]
    total, there = sum(row.bytes for row in done), sum(row.read_bytes for row in done)
    short = "; the nodes' memory has no room for the rest" if there < total else ""
    figures = (
        f"{len(done)} of {len(rows)} nodes, {format_bytes(there)} of {format_bytes(total)} in the page cache{short}"
    )
    whole = bool(rows) and len(done) == len(rows)
    return whole, Reason.PAGES_WARM if whole else Reason.WARMING, figures


def set_nodes_found(out: ConditionSet, view: ClusterView, dataset: Dataset) -> None:
    """Set the condition NodesFound. Set nothing if the Dataset names no nodes."""
    if not dataset.spec.warm.nodes:
        return
    if missing := missing_nodes(view, dataset):
        out.set(ConditionType.NODES_FOUND, False, Reason.NODE_NOT_FOUND, missing_sentence(missing))
    else:
        out.set(ConditionType.NODES_FOUND, True, Reason.NODES_FOUND, "every node of warm.nodes can hold it")


def set_pages_warm(out: ConditionSet, dataset: Dataset, targets: Mapping[str, NodeState]) -> None:
    """Set the condition PagesWarm. Set nothing if the Dataset does not request pages."""
    if not (request := pages_request(dataset)):
        return
    reports = {name: state.reported for name, state in targets.items()}
    rows = {name: None if one is None else one.pages for name, one in reports.items()}
    out.set(ConditionType.PAGES_WARM, *pages_verdict(request, rows))


def set_memory_pinned(out: ConditionSet, dataset: Dataset, held: Mapping[str, NodeState]) -> None:
    """Set the condition MemoryPinned. Set nothing if the Dataset does not request memory."""
    if not asks_for_memory(dataset.spec.cache.memory):
        return
    reports = {node: state.reported for node, state in held.items() if not state.found}
    rows = {node: one.memory for node, one in reports.items() if one is not None and one.memory is not None}
    out.set(ConditionType.MEMORY_PINNED, *memory_verdict(rows))
