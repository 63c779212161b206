"""Tables and progress bars on a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from stoker_api.dataset import Dataset
from stoker_api.meta import format_bytes
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_cli import rows
from stoker_cli.tuning_rows import printable
from stoker_cli.why import PodExplanation

BAR_WIDTH = 30  # columns; leaves room for the rest on an 80-column terminal


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    """Return a plain table as kubectl prints them; what is in it may be anyone's words."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        out.add_column(column, overflow="fold", no_wrap=column in ("NAME", "NODE", "PHASE"))
    for line in lines:
        out.add_row(*map(plain, line))
    return out


def plain(text: str) -> str:
    """Return others' text, of several lines perhaps, without signs that a terminal would obey."""
    return "\n".join(map(printable, text.splitlines()))


def datasets(items: Sequence[Dataset]) -> RenderableType:
    """Return all Datasets, a line each, and below them how much of which quota is taken."""
    columns = ("NAMESPACE", "NAME", "PHASE", "FILES", "TOTAL", "CACHED%", "NODES", "SPEED", "ETA", "CLASS")
    lines = rows.quota_lines(items)
    return Group(
        table(columns, (rows.dataset_row(item) for item in rows.by_name(items))), *([""] if lines else []), *lines
    )


def dataset(item: Dataset, caches: Sequence[NodeCache] = ()) -> RenderableType:
    """Draw one Dataset: its sentence, its class, a bar, a line for each node, and what its pods do, as nodes say."""
    now = rows.progress(item)
    bar = Table.grid(padding=(0, 1))
    facts = f"{100 * now.share:3.0f} %  {format_bytes(now.done)} of {format_bytes(now.total)}"
    pace = f"{format_bytes(now.speed)}/s  ETA {now.eta or rows.UNKNOWN}" if now.speed else ""
    bar.add_row(ProgressBar(total=1.0, completed=now.share, width=BAR_WIDTH), facts, pace)
    columns = ("NODE", "PHASE", "WARM", "SHARE", "SPEED", "ETA", "MODE", "LAST ERROR")
    size = item.status.warm_paths.bytes if item.status.warm_paths is not None else item.status.bytes or 0
    nodes = table(columns, (rows.node_detail_row(node, size) for node in item.status.nodes))
    title = f"{item.key}: {item.status.phase or 'Pending'}. {rows.message(item)}"
    head = (title, *rows.class_lines(item), *rows.path_lines(item), *rows.memory_lines(item), *rows.timing_lines(item))
    working = workloads(rows.readers(caches, item))
    shown = map(plain, head)
    return Group(*shown, bar, nodes, *working) if item.status.nodes else Group(*shown, *working)


def workloads(known: Sequence[tuple[str, NodeWorkload]]) -> list[RenderableType]:
    """Return a table of what pods do, each with its node; nothing where nothing is known."""
    columns = ("NODE", "POD", "TRAINING", "EPOCH", "ITEMS/S", "STALL", "ORDER", "LOSS", "SOURCE")
    return ["", table(columns, ((node, *rows.workload_row(row)) for node, row in known))] if known else []


def node_caches(caches: Sequence[NodeCache]) -> RenderableType:
    """Return all nodes, a line each, and below them what each holds and what its pods do with it."""
    columns = ("NODE", "READY", "DATASETS", "USED", "CAPACITY", "FREE", "WARMING", "MOUNTS", "MODES")
    parts: list[RenderableType] = [table(columns, (rows.node_row(cache) for cache in caches))]
    held = [(cache.metadata.name, *rows.held_row(item)) for cache in caches for item in cache.status.datasets]
    if held:
        parts += ["", table(("NODE", "DATASET", "PHASE", "WARM", "SHARE", "SPEED", "ETA", "CAME FROM"), held)]
    parts += workloads([(cache.metadata.name, item) for cache in caches for item in cache.status.workloads])
    more = rows.left_out(caches)
    asked = ["stoker status --nodes asks the nodes themselves for all of it"] if more else []
    below = [*rows.memory_of_nodes(caches), *rows.unconfined(caches), *more, *asked]
    return Group(*parts, *(["", *map(plain, below)] if below else []))


def explanation(item: PodExplanation) -> RenderableType:
    """Return the sentences of `why`, then the events."""
    parts: list[RenderableType] = [plain(f"pod {item.pod}: {item.state}"), *(plain(f"  {line}") for line in item.lines)]
    if item.events:
        events = ((event["time"], event["reason"], event["message"]) for event in item.events)
        parts += ["", table(("TIME", "REASON", "MESSAGE"), events)]
    return Group(*parts)
