"""The warm map, and the table of nodes behind it."""

from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_cli.dashboard.core.links import page_of, path_of
from stoker_cli.dashboard.core.node_table import (
    FAILED_CODE,
    DatasetIndex,
    NodePass,
    NodeTable,
    cells_of,
    nodes_of_datasets,
)
from stoker_cli.dashboard.core.overview import COLUMNS, MapRequest, warm_map
from stoker_cli.dashboard.core.views import MapCell
from tests.support.cases import cases
from tests.unit.stoker_cli.dashboard.users import dataset, node


def row(phase: str, warm: int = 0, **fields: Any) -> dict[str, Any]:
    return {"namespace": "vision", "name": "imagenet", "phase": phase, "bytes": 100, "warmBytes": warm} | fields


def table(*rows: dict[str, Any] | None) -> NodeTable:
    """Make nodes with this row of the Dataset, or without it."""
    reading = NodePass(DatasetIndex())
    reading.add(node(f"node-{at:03}", datasets=[one] if one else []) for at, one in enumerate(rows))
    return reading.table()


IMAGENET = Dataset.model_validate(dataset())


@cases(
    "held, cell",
    (row("Warm", 100), MapCell("100%", "w10")),
    (row("Warming", 57), MapCell("57%", "w5")),
    (row("Failed", 57), MapCell("failed", "failed")),
    (row("Idle"), MapCell("0%", "w0")),
    (row("PathsWarm", 30, warmPaths={"bytes": 30, "warmBytes": 30}), MapCell("100%", "w10")),
    (row("Warm", 0, bytes=0), MapCell("100%", "w10")),
    (row("NewPhase", 57), MapCell("57%", "w5")),
    (None, MapCell("-", "none")),
)
def test_a_cell_of_a_node(held: dict[str, Any] | None, cell: MapCell) -> None:
    (line,) = warm_map([IMAGENET], table(held), MapRequest()).rows
    assert line.cells == [cell]


@cases(
    "first, cell",
    ("Warm", MapCell("2/2", "w10")),
    ("Warming", MapCell("1/2", "w7")),
    ("Failed", MapCell("1/2, 1 failed", "failed")),
)
def test_a_cell_of_a_group_counts_warm_nodes(first: str, cell: MapCell) -> None:
    nodes = table(row(first, 100 if first == "Warm" else 50), row("Warm", 100), *[None] * (2 * COLUMNS - 2))
    (line,) = warm_map([IMAGENET], nodes, MapRequest()).rows
    assert line.cells[0] == cell


def test_a_group_leads_to_its_nodes_and_back() -> None:
    nodes = table(*[row("Warm", 100)] * (3 * COLUMNS))
    everything = warm_map([IMAGENET], nodes, MapRequest())
    part = warm_map([IMAGENET], nodes, MapRequest(first=3, count=3))
    assert everything.columns[1].href == "/?first=3&count=3"
    assert [column.text for column in part.columns] == ["node-003", "node-004", "node-005"]
    assert part.back is not None
    assert part.back.href == "/"


@pytest.mark.parametrize("count", [1, COLUMNS, COLUMNS + 1, 5_000])
def test_a_map_has_few_columns_and_every_node(count: int) -> None:
    shown = warm_map([IMAGENET], table(*[row("Warm", 100)] * count), MapRequest())
    counts = [1 if "/" not in cell.text else int(cell.text.split("/")[1]) for cell in shown.rows[0].cells]
    assert len(shown.columns) <= COLUMNS
    assert sum(counts) == count


def test_sums_of_traffic_are_kept_per_dataset() -> None:
    nodes = table(row("Warm", sourceBytes=1, peerBytes=10), row("Warm", sourceBytes=2, peerBytes=20))
    assert (nodes.source, nodes.peers) == ({"vision/imagenet": 3}, {"vision/imagenet": 30})


@pytest.mark.parametrize("trouble", [{"error": {"reason": "R", "message": "m"}}, {"failingReads": {"reason": "R"}}])
def test_a_failing_dataset_is_counted(trouble: dict[str, Any]) -> None:
    assert table(row("Warm", **trouble)).nodes[0].failing == 1


def test_an_unreported_node_is_not_ready() -> None:
    reading = NodePass(DatasetIndex())
    reading.add([{"metadata": {"name": "node-1"}}])
    assert not reading.table().nodes[0].ready


def test_statuses_of_datasets_name_nodes() -> None:
    rows = [{"name": "b", "phase": "Warm", "warmBytes": 100}, {"name": "a", "phase": "Failed", "lastError": "refused"}]
    nodes = nodes_of_datasets([Dataset.model_validate(dataset(nodes=rows))], DatasetIndex())
    assert [(one.name, *cells_of([one], 0), one.failing) for one in nodes.nodes] == [
        ("a", (FAILED_CODE, 0), 1),
        ("b", (4, 100), 0),
    ]


@cases(
    "number, items, before, after",
    (1, [1, 2], "", "/x?q=a&page=2"),
    (2, [3], "/x?q=a&page=1", ""),
    (9, [3], "/x?q=a&page=1", ""),
    (-1, [1, 2], "", "/x?q=a&page=2"),
)
def test_pages_of_a_table(number: int, items: list[int], before: str, after: str) -> None:
    shown, pager = page_of([1, 2, 3], number, "/x", rows=2, query={"q": "a"})
    assert (list(shown), pager.before, pager.after) == (items, before, after)


def test_names_are_quoted_in_paths() -> None:
    assert path_of("nodes", "../a?b#c/d") == "/nodes/..%2Fa%3Fb%23c%2Fd"
