"""Conditions of what a Dataset asks for beside bytes on disks: nodes by name, pages, memory."""

from collections.abc import Mapping

from stoker_api.dataset import Dataset
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.conditions import ConditionSet
from stoker_operator.core.memory_status import asks_for_memory, memory_verdict, pages_verdict
from stoker_operator.core.node_states import NodeState
from stoker_operator.core.plan import pages_request
from stoker_operator.core.views import ClusterView
from stoker_operator.core.warm_nodes import missing_nodes, missing_sentence


def set_nodes_found(out: ConditionSet, view: ClusterView, dataset: Dataset) -> None:
    """Say whether all nodes that it names can hold it; nothing where it names none."""
    if not dataset.spec.warm.nodes:
        return
    if missing := missing_nodes(view, dataset):
        out.set(ConditionType.NODES_FOUND, False, Reason.NODE_NOT_FOUND, missing_sentence(missing))
    else:
        out.set(ConditionType.NODES_FOUND, True, Reason.NODES_FOUND, "every node of warm.nodes can hold it")


def set_pages_warm(out: ConditionSet, dataset: Dataset, targets: Mapping[str, NodeState]) -> None:
    """Say how far the page cache of its nodes is; nothing where it asks for none."""
    if not (request := pages_request(dataset)):
        return
    reports = {name: state.reported for name, state in targets.items()}
    rows = {name: None if one is None else one.pages for name, one in reports.items()}
    out.set(ConditionType.PAGES_WARM, *pages_verdict(request, rows))


def set_memory_pinned(out: ConditionSet, dataset: Dataset, held: Mapping[str, NodeState]) -> None:
    """Say what stays in the nodes' memory; nothing where it asks for nothing."""
    if not asks_for_memory(dataset.spec.cache.memory):
        return
    reports = {node: state.reported for node, state in held.items()}
    rows = {node: one.memory for node, one in reports.items() if one is not None and one.memory is not None}
    out.set(ConditionType.MEMORY_PINNED, *memory_verdict(rows))
