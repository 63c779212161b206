"""The list of Datasets, and the page of one."""

from collections.abc import Sequence

from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import Condition, format_bytes
from stoker_cli import rows
from stoker_cli.dashboard.core.cluster_data import ClusterData
from stoker_cli.dashboard.core.links import PageRequest, link_to, page_of, path_of
from stoker_cli.dashboard.core.overview import matching
from stoker_cli.dashboard.core.views import ActionView, Bar, CellView, PageView, Search, TableView
from stoker_cli.pods.top_row import TopRow
from stoker_cli.rows import UNKNOWN

_COLUMNS = ("Dataset", "Phase", "Files", "Total", "Cached", "Warm nodes", "Speed", "ETA", "Message")
_NODE_COLUMNS = ("Node", "Phase", "Warm", "Share", "Speed", "ETA", "Mode", "Last error")
_POD_COLUMNS = ("Pod", "Node", "Phase", "Epoch", "Items/s", "Stall", "Age", "Order", "Changed", "Gain")


def dataset_list(data: ClusterData, page: int, text: str) -> PageView:
    """Return a page of all Datasets whose name contains a text."""
    shown, pager = page_of(matching(data, text), page, "/datasets", query={"q": text})
    table = TableView("Datasets", _COLUMNS, [_row(dataset) for dataset in shown], "No Datasets.", pager)
    search = Search("/datasets", "Dataset name contains", text)
    return PageView("Datasets", "datasets", notices=data.notices("datasets"), search=search, tables=[table])


def _row(dataset: Dataset) -> tuple[CellView, ...]:
    _, _, phase, files, total, share, nodes, speed, eta, _ = rows.dataset_row(dataset)
    return (link_to("datasets", dataset.key), phase, files, total, share, nodes, speed, eta, rows.message(dataset))


def dataset_page(dataset: Dataset, data: ClusterData, actions: Sequence[ActionView], request: PageRequest) -> PageView:
    """Return the page of a Dataset."""
    warm = rows.progress(dataset)
    text = f"{format_bytes(warm.done)} of {format_bytes(warm.total)} on its nodes"
    return PageView(
        f"Dataset {dataset.key}",
        "datasets",
        notices=data.notices("workloads", "nodes"),
        sentences=_sentences(dataset),
        facts=_facts(dataset, data),
        bar=Bar(int(100 * warm.share), text) if warm.total else None,
        actions=actions,
        tables=[conditions_table(dataset.status.conditions), _nodes(dataset), _users(dataset, data, request)],
    )


def _sentences(dataset: Dataset) -> list[str]:
    lines = (
        rows.class_lines(dataset),
        rows.path_lines(dataset),
        rows.memory_lines(dataset),
        rows.timing_lines(dataset),
    )
    first = rows.message(dataset)
    return [*([first] if first else []), *(line for group in lines for line in group)]


def _facts(dataset: Dataset, data: ClusterData) -> list[tuple[str, str]]:
    status, now = dataset.status, rows.progress(dataset)
    return [
        ("Phase", status.shown_phase or "Pending"),
        ("Source", dataset.spec.source.uri),
        ("Version", status.version_short or "not listed yet"),
        ("Older versions in use", ", ".join(version[:12] for version in status.versions_in_use) or "none"),
        ("Files", UNKNOWN if status.files is None else f"{status.files:,}"),
        ("Size", status.total or UNKNOWN),
        ("Warm nodes", status.warm_nodes or UNKNOWN),
        ("Speed", f"{format_bytes(now.speed)}/s" if now.speed else UNKNOWN),
        ("ETA", now.eta or UNKNOWN),
        ("From the origin", data.nodes_access.shown(format_bytes(data.nodes.source.get(dataset.key, 0)))),
        (
            "From peers instead of the origin",
            data.nodes_access.shown(format_bytes(data.nodes.peers.get(dataset.key, 0))),
        ),
    ]


def conditions_table(conditions: Sequence[Condition]) -> TableView:
    """Return the conditions of an object as sentences."""
    lines = [(each.type, each.status, each.reason, each.message, each.last_transition_time) for each in conditions]
    return TableView("Conditions", ("Condition", "Status", "Reason", "Message", "Since"), lines, "No conditions yet.")


def _nodes(dataset: Dataset) -> TableView:
    part = dataset.status.warm_paths
    size = part.bytes if part is not None else dataset.status.bytes or 0
    details = (rows.node_detail_row(node, size) for node in dataset.status.nodes)
    lines: list[tuple[CellView, ...]] = [(link_to("nodes", name), *rest) for name, *rest in details]
    return TableView("Nodes", _NODE_COLUMNS, lines, "No node holds it.")


def _users(dataset: Dataset, data: ClusterData, request: PageRequest) -> TableView:
    pods = [row for row in data.workloads if dataset.key in row.workload.datasets]
    held = [pod for pod in data.held if dataset.key in pod.datasets]
    empty = f"No known pod reads it. Held pods that wait for it: {len(held):,}."
    return pod_table("Pods that read it", pods, empty, link_to("datasets", dataset.key).href, request)


def pod_table(caption: str, pods: Sequence[TopRow], empty: str, path: str, request: PageRequest) -> TableView:
    """Return a page of a table of pods with their figures. ``path``: of the page that has the table."""
    shown, pager = page_of(pods, request.page, path)
    return TableView(caption, _POD_COLUMNS, [_pod_row(row, request.now) for row in shown], empty, pager)


def _pod_row(row: TopRow, now: float) -> tuple[CellView, ...]:
    pod, node, *rest = row.words(now)
    return (link_to("pods", pod), link_to("nodes", node), *rest)


def dataset_actions(dataset: Dataset, refusal: str) -> list[ActionView]:
    """Return the actions on a Dataset. ``refusal``: why the user may not change it, empty if allowed."""
    paused = dataset.spec.warm.paused
    pause = (
        ("resume", "Resume", "Resume warming.")
        if paused
        else ("pause", "Pause", "Pause warming. Pods can still read it.")
    )
    chosen = (
        ("warm", "Warm", "Fetch it onto its nodes now."),
        pause,
        ("refresh", "Refresh", "Check the source for changes. New pods read the new version."),
    )
    base = path_of("datasets", *dataset.key.split("/", 1))
    return [ActionView(label, f"{base}/{name}", words, refusal) for name, label, words in chosen]
