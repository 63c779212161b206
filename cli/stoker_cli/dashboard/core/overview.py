"""The first page: totals, and the warm map of Datasets by nodes, with nodes in groups if there are many."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import format_bytes
from stoker_cli.dashboard.core.cluster_data import ClusterData
from stoker_cli.dashboard.core.links import link_to, page_of, path_of, with_query
from stoker_cli.dashboard.core.node_table import (
    FAILED_CODE,
    WARM_CODES,
    DatasetIndex,
    NodeSummary,
    NodeTable,
    cells_of,
    nodes_of_datasets,
)
from stoker_cli.dashboard.core.views import Link, MapCell, MapRow, PageView, Search, WarmMap
from stoker_cli.rows import by_name

COLUMNS = 24
ROWS = 25
_ABSENT = MapCell("-", "none")
_GROUPS = "A cell shows warm nodes of all nodes of the group that hold the Dataset. Select a group to see its nodes."
_NODES = "A cell shows the warm share of the Dataset on the node."


@dataclass(frozen=True)
class MapRequest:
    """The shown part: ``count`` nodes from position ``first`` (0: all), and a page of the Datasets with a text."""

    first: int = 0
    count: int = 0
    page: int = 1
    text: str = ""


def warm_map(datasets: Sequence[Dataset], table: NodeTable, request: MapRequest) -> WarmMap:
    """Return the map of sorted Datasets."""
    last = request.first + request.count if request.count else len(table.nodes)
    nodes = table.nodes[request.first : last]
    size = max(1, -(-len(nodes) // COLUMNS))
    groups = [nodes[at : at + size] for at in range(0, len(nodes), size)]
    columns = [_column(group, request.first + at * size, request.text) for at, group in enumerate(groups)]
    part: dict[str, str | int] = {"first": request.first, "count": request.count, "q": request.text}
    shown, pager = page_of(datasets, request.page, "/", rows=ROWS, query=part)
    rows = [_row(dataset, table, groups) for dataset in shown]
    back = Link("All nodes", with_query("/", q=request.text)) if request.count else None
    return WarmMap(columns, rows, _GROUPS if size > 1 else _NODES, pager, back)


def _column(group: Sequence[NodeSummary], first: int, text: str) -> Link:
    if len(group) == 1:
        return Link(group[0].name, path_of("nodes", group[0].name))
    return Link(f"{group[0].name} to {group[-1].name}", with_query("/", first=first, count=len(group), q=text))


def _row(dataset: Dataset, table: NodeTable, groups: Sequence[Sequence[NodeSummary]]) -> MapRow:
    position = table.index.find(dataset.key)
    cells = [_cell(group, position) for group in groups]
    return MapRow(link_to("datasets", dataset.key), dataset.status.shown_phase or "Pending", cells)


def _cell(group: Sequence[NodeSummary], position: int) -> MapCell:
    states = list(cells_of(group, position))
    if not states:
        return _ABSENT
    counts = Counter(code for code, _ in states)
    warm, failed = sum(counts[code] for code in WARM_CODES), counts[FAILED_CODE]
    level = "failed" if failed else f"w{sum(percent for _, percent in states) // (10 * len(states))}"
    if len(group) == 1:
        return MapCell("failed" if failed else f"{states[0][1]}%", level)
    return MapCell(f"{warm}/{len(states)}" + (f", {failed} failed" if failed else ""), level)


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
