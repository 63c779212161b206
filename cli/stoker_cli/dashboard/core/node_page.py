"""The list of nodes, and the page of one."""

from dataclasses import replace

from stoker_api.meta import format_bytes
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli import rows
from stoker_cli.access.pod_figures import ASK_FOR_NODES
from stoker_cli.dashboard.core.cluster_data import ClusterData
from stoker_cli.dashboard.core.dataset_page import conditions_table, pod_table
from stoker_cli.dashboard.core.links import PageRequest, link_to, page_of, path_of
from stoker_cli.dashboard.core.node_table import NodeSummary
from stoker_cli.dashboard.core.overview import visible_nodes
from stoker_cli.dashboard.core.views import CellView, PageView, Search, TableView
from stoker_cli.pods.top_row import TopRow

_COLUMNS = ("Node", "Ready", "Datasets", "Failing", "Used", "Capacity", "Message")
_ORIGIN_COLUMNS = ("Origin", "Fetching", "Wanted bytes", "Wanted requests", "Last SlowDown")
_HELD_COLUMNS = ("Dataset", "Phase", "Warm", "Share", "Speed", "ETA", "Came from", "Last error")


def node_list(data: ClusterData, request: PageRequest, text: str) -> PageView:
    """Return a page of all nodes whose name contains a text, those that are not ready first, and of all origins."""
    nodes = [node for node in visible_nodes(data).nodes if text in node.name]
    nodes.sort(key=lambda node: (node.ready, not node.failing, node.name))
    shown, pager = page_of(nodes, request.page, "/nodes", query={"q": text})
    table = TableView("Nodes", _COLUMNS, [_row(node) for node in shown], "No nodes.", pager)
    search = Search("/nodes", "Node name contains", text)
    return PageView(
        "Nodes", "nodes", notices=data.notices("nodes"), search=search, tables=[table, _all_origins(data, request)]
    )


def _all_origins(data: ClusterData, request: PageRequest) -> TableView:
    shown, pager = page_of(data.nodes.origins, request.held, "/nodes", parameter="held")
    lines = [
        (
            origin.name,
            f"{origin.fetching:,} of {origin.nodes:,}",
            f"{format_bytes(origin.wanted_bytes)}/s",
            f"{origin.wanted_requests:,.1f}/s",
            origin.throttled_at or rows.UNKNOWN,
        )
        for origin in shown
    ]
    columns = ("Origin", "Fetching nodes", *_ORIGIN_COLUMNS[2:])
    return TableView("Origins", columns, lines, "No known node fetches from an origin.", pager)


def _row(node: NodeSummary) -> tuple[CellView, ...]:
    figures = (str(node.held), str(node.failing), format_bytes(node.used), format_bytes(node.capacity))
    ready = ("yes", "") if node.ready else ("no", node.message)
    return (link_to("nodes", node.name), ready[0], *figures, ready[1])


def node_page(cache: NodeCache, request: PageRequest) -> PageView:
    """Return the page of a node."""
    status, name = cache.status, cache.metadata.name
    path, first = path_of("nodes", name), replace(request, page=1)  # a NodeCache has ten pods at most
    held, pager = page_of(status.datasets, request.page, path)
    lines = [_held_row(row) for row in held]
    pods = [TopRow(name, row) for row in status.workloads]
    return PageView(
        f"Node {name}",
        "nodes",
        sentences=[*rows.memory_of_nodes([cache]), *rows.unconfined([cache]), *rows.left_out([cache])],
        facts=_facts(cache),
        tables=[
            TableView("Datasets", _HELD_COLUMNS, lines, "It holds no Dataset.", pager),
            pod_table("Pods", pods, "No pod reads a Dataset on it.", path, first),
            _origins(cache),
            conditions_table(status.conditions),
        ],
    )


def _held_row(row: NodeDatasetStatus) -> tuple[CellView, ...]:
    key, *figures = rows.held_row(row)
    problem = row.failing_reads.sentence("Reads of pods") if row.failing_reads is not None else ""
    error = row.error.message if row.error is not None else problem
    return (link_to("datasets", key), *figures, error or rows.UNKNOWN)


def _origins(cache: NodeCache) -> TableView:
    lines = [
        (
            origin.name,
            "yes" if origin.fetching else "no",
            f"{format_bytes(origin.bytes_per_second)}/s",
            f"{origin.milli_requests_per_second / 1000:g}/s",
            origin.throttled_at or rows.UNKNOWN,
        )
        for origin in cache.status.origins
    ]
    return TableView("Origins", _ORIGIN_COLUMNS, lines, "It fetches from no origin now.")


def _facts(cache: NodeCache) -> list[tuple[str, str]]:
    status = cache.status
    peers, source = (sum(getattr(row, name) for row in status.datasets) for name in ("peer_bytes", "source_bytes"))
    return [
        ("Sidecar version", status.sidecar_version or rows.UNKNOWN),
        ("Used", f"{format_bytes(status.used_bytes)} of {format_bytes(status.capacity_bytes)}"),
        ("Free for Datasets", format_bytes(status.available_bytes)),
        ("Mount modes", ", ".join(status.modes) or rows.UNKNOWN),
        ("Observer", status.observer or rows.UNKNOWN),
        ("From the origin", format_bytes(source)),
        ("From peers instead of the origin", format_bytes(peers)),
    ]


def missing_node(name: str, data: ClusterData, request: PageRequest, *, refused: bool) -> PageView:
    """Return the page of a node whose NodeCache is not readable: the Datasets whose status names it."""
    named = [(dataset, row) for dataset in data.datasets.values() for row in dataset.status.nodes if row.name == name]
    lines = [
        (link_to("datasets", dataset.key), row.phase, row.eta or rows.UNKNOWN, row.last_error) for dataset, row in named
    ]
    pods = [row for row in data.workloads if row.node == name]
    return PageView(
        f"Node {name}",
        "nodes",
        notices=[ASK_FOR_NODES if refused else f"There is no NodeCache {name}: no sidecar runs on this node."],
        tables=[
            TableView("Datasets", ("Dataset", "Phase", "ETA", "Last error"), lines, "No Dataset names this node."),
            pod_table("Pods", pods, "No known pod reads a Dataset on it.", path_of("nodes", name), request),
        ],
    )
