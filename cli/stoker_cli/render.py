"""Tables and progress bars on a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import format_bytes
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli import rows
from stoker_cli.output import plain

BAR_WIDTH = 30  # columns; fits an 80-column terminal with the figures


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    """Return a table in the style of kubectl. Cells may contain untrusted text."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        out.add_column(column, overflow="fold", no_wrap=column in ("NAME", "NODE", "PHASE"))
    for line in lines:
        out.add_row(*map(plain, line))
    return out


def datasets(items: Sequence[Dataset], *, wide: bool = False) -> RenderableType:
    """Return a table of Datasets, and the used quotas. ``wide``: with the version, and why each one waits or fails."""
    columns = ("NAMESPACE", "NAME", "PHASE", "FILES", "TOTAL", "CACHED%", "NODES", "SPEED", "ETA", "CLASS")
    more = ("VERSION", "MESSAGE") if wide else ()
    lines = rows.quota_lines(items)
    return Group(
        table(
            (*columns, *more),
            ((*rows.dataset_row(item), *(_wide_dataset(item) if wide else ())) for item in rows.by_name(items)),
        ),
        *([""] if lines else []),
        *lines,
    )


def _wide_dataset(item: Dataset) -> tuple[str, str]:
    return item.status.version_short or rows.UNKNOWN, rows.message(item)


def dataset(item: Dataset, caches: Sequence[NodeCache] = ()) -> RenderableType:
    """Return the state of a Dataset: conditions, class, progress bar, nodes and pods."""
    now = rows.progress(item)
    bar = Table.grid(padding=(0, 1))
    facts = f"{100 * now.share:3.0f} %  {format_bytes(now.done)} of {format_bytes(now.total)}"
    pace = f"{format_bytes(now.speed)}/s  ETA {now.eta or rows.UNKNOWN}" if now.speed else ""
    bar.add_row(ProgressBar(total=1.0, completed=now.share, width=BAR_WIDTH), facts, pace)
    columns = ("NODE", "PHASE", "WARM", "SHARE", "SPEED", "ETA", "MODE", "LAST ERROR")
    size = item.status.warm_paths.bytes if item.status.warm_paths is not None else item.status.bytes or 0
    nodes = table(columns, (rows.node_detail_row(node, size) for node in item.status.nodes))
    title = f"{item.key}: {item.status.shown_phase or 'Pending'}. {rows.message(item)}"
    head = (title, *rows.class_lines(item), *rows.path_lines(item), *rows.memory_lines(item), *rows.timing_lines(item))
    working = workloads(rows.readers(caches, item))
    shown = map(plain, head)
    return Group(*shown, bar, nodes, *working) if item.status.nodes else Group(*shown, *working)


def _wide_node(cache: NodeCache) -> tuple[str, str]:
    status = cache.status
    limits = [each.message for each in status.conditions if each.status != "True"]
    return status.sidecar_version or rows.UNKNOWN, "; ".join(filter(None, (*limits, status.modes_message)))


def workloads(pods: Sequence[tuple[str, NodeWorkload]]) -> list[RenderableType]:
    """Return a table of pods with their nodes, or an empty list without pods."""
    columns = ("NODE", "POD", "TRAINING", "EPOCH", "ITEMS/S", "STALL", "ORDER", "LOSS", "SOURCE")
    return ["", table(columns, ((node, *rows.workload_row(row)) for node, row in pods))] if pods else []


def node_caches(caches: Sequence[NodeCache], *, wide: bool = False) -> RenderableType:
    """Return a table of nodes, their Datasets, and their pods. ``wide``: with version and limits."""
    columns = ("NODE", "READY", "DATASETS", "USED", "CAPACITY", "FREE", "WARMING", "MOUNTS", "MODES")
    wider = ("VERSION", "MESSAGE") if wide else ()
    cells = ((*rows.node_row(cache), *(_wide_node(cache) if wide else ())) for cache in caches)
    parts: list[RenderableType] = [table((*columns, *wider), cells)]
    held = [(cache.metadata.name, *rows.held_row(item)) for cache in caches for item in cache.status.datasets]
    if held:
        parts += ["", table(("NODE", "DATASET", "PHASE", "WARM", "SHARE", "SPEED", "ETA", "CAME FROM"), held)]
    parts += workloads([(cache.metadata.name, item) for cache in caches for item in cache.status.workloads])
    more = rows.left_out(caches)
    asked = ["For complete figures, run: stoker status --nodes"] if more else []
    below = [*rows.memory_of_nodes(caches), *rows.unconfined(caches), *more, *asked]
    return Group(*parts, *(["", *map(plain, below)] if below else []))
