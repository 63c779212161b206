"""The warm map: Datasets by nodes, with nodes in groups if there are many."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stoker_api.datasets.dataset import Dataset
from stoker_cli.dashboard.core.links import link_to, page_of, path_of, with_query
from stoker_cli.dashboard.core.node_table import FAILED_CODE, WARM_CODES, NodeSummary, NodeTable, cells_of
from stoker_cli.dashboard.core.views import Link, MapCell, MapRow, WarmMap

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
