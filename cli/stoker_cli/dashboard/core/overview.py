"""The first page: totals and the warm map."""

from collections import Counter
from collections.abc import Iterable, Sequence

from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import format_bytes
from stoker_cli.dashboard.core.cluster_data import ClusterData
from stoker_cli.dashboard.core.node_table import DatasetIndex, NodeTable, nodes_of_datasets
from stoker_cli.dashboard.core.views import PageView, Search
from stoker_cli.dashboard.core.warm_map import MapRequest, warm_map
from stoker_cli.rows import by_name

_FROM_STATUS = "The map shows the nodes in the statuses of Datasets, at most 50 for each Dataset."


def overview(data: ClusterData, request: MapRequest) -> PageView:
    """Return the page."""
    table = visible_nodes(data)
    datasets = matching(data, request.text)
    sentences = [_FROM_STATUS] if data.nodes_access.refused else []
    return PageView(
        "Overview",
        "overview",
        notices=data.notices(),
        sentences=sentences,
        facts=_facts(data, table),
        search=Search("/", "Dataset name contains", request.text),
        warm_map=warm_map(datasets, table, request),
    )


def visible_nodes(data: ClusterData) -> NodeTable:
    """Return the NodeCaches, or the nodes in statuses of Datasets if the user may not read NodeCaches."""
    if not data.nodes_access.refused:
        return data.nodes
    return nodes_of_datasets(data.datasets.values(), DatasetIndex())


def matching(data: ClusterData, text: str) -> Sequence[Dataset]:
    """Return the sorted Datasets whose ``namespace/name`` contains a text."""
    return [dataset for dataset in by_name(data.datasets.values()) if text in dataset.key]


def _facts(data: ClusterData, table: NodeTable) -> list[tuple[str, str]]:
    phases = (dataset.status.shown_phase or "Pending" for dataset in data.datasets.values())
    jobs = (str(job.status.phase or "Pending") for job in data.jobs.values())
    nodes = f"{len(table.nodes):,}, {sum(node.ready for node in table.nodes):,} ready"
    return [
        ("Datasets", data.datasets_access.shown(_counted(phases))),
        ("Nodes", data.nodes_access.shown(nodes)),
        ("Held pods", data.held_access.shown(f"{len(data.held):,}")),
        ("TrainingJobs", data.jobs_access.shown(_counted(jobs))),
        ("From peers instead of the origin", data.nodes_access.shown(_saved(table))),
    ]


def _saved(table: NodeTable) -> str:
    """Format the bytes from peers since the fetchers of the nodes started."""
    peers, source = sum(table.peers.values()), sum(table.source.values())
    return f"{format_bytes(peers)} of {format_bytes(peers + source)}"


def _counted(words: Iterable[str]) -> str:
    counts = Counter(words)
    parts = ", ".join(f"{count:,} {word}" for word, count in sorted(counts.items()))
    return f"{counts.total():,}" + (f": {parts}" if parts else "")
