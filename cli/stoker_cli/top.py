"""The command `stoker top`: what workloads do now, live on a terminal."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import click
from rich.live import Live
from rich.table import Table

from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_cli.cluster import Target, connect
from stoker_cli.local_mounts import LocalMount, LocalMountPath, of_a_mount
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.render import table
from stoker_cli.rows import UNKNOWN, epoch_words, number_words, order_words
from stoker_cli.tuning_rows import printable

COLUMNS = ("POD", "NODE", "PHASE", "EPOCH", "ITEMS/S", "STALL", "ORDER", "CHANGED", "GAIN")
_LEAST = float("-inf")
# The sign keeps click from making one paragraph of the lines.
_EXAMPLES = """\b
Examples:
  stoker top                          your namespace, refreshed in place
  stoker top -A --sort stall --once   all namespaces, who waits most first
  stoker top -o json | jq '.[].phase'
  stoker top --mount /data            who reads a mount of stoker mount
"""


class TopRow(NamedTuple):
    """A workload, and the node that says what it does."""

    node: str
    workload: NodeWorkload

    def words(self) -> tuple[str, ...]:
        """Return the cells of a line of the table."""
        row = self.workload
        gain = "" if row.gain_percent is None else f"{row.gain_percent:+d}%"
        stall = "" if row.stall_percent is None else f"{row.stall_percent}%"
        found = (row.pod, self.node, row.phase, epoch_words(row), number_words(row.items_per_second), stall)
        return tuple(printable(word) or UNKNOWN for word in (*found, order_words(row), row.tuned, gain))

    def wire(self) -> dict[str, object]:
        """Return it as JSON."""
        return {"node": self.node, **self.workload.wire()}


def _number(value: float | None) -> float:
    return _LEAST if value is None else value


# What lines may be sorted by; the largest come first, but for names.
SORTS: dict[str, Callable[[TopRow], tuple[float | str, ...]]] = {
    "pod": lambda row: (row.workload.pod,),
    "node": lambda row: (row.node, row.workload.pod),
    "phase": lambda row: (row.workload.phase, row.workload.pod),
    "items": lambda row: (-_number(row.workload.items_per_second), row.workload.pod),
    "stall": lambda row: (-_number(row.workload.stall_percent), row.workload.pod),
    "gain": lambda row: (-_number(row.workload.gain_percent), row.workload.pod),
}


def top_rows(caches: Iterable[NodeCache], namespace: str, by: str) -> list[TopRow]:
    """Return the workloads of a namespace, or of all (empty), in the order asked for."""
    found = (TopRow(cache.metadata.name, row) for cache in caches for row in cache.status.workloads)
    return sorted((row for row in found if not namespace or _is_in(row, namespace)), key=SORTS[by])


def _is_in(row: TopRow, namespace: str) -> bool:
    return row.workload.pod.partition("/")[0] == namespace


def top_table(rows: Sequence[TopRow]) -> Table:
    """Return the table."""
    return table(COLUMNS, (row.words() for row in rows))


@click.command(epilog=_EXAMPLES)
@click.option("-n", "--namespace", help="Default: the context's namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Workloads of every namespace.")
@click.option("--once", is_flag=True, help="Show it once and end; so it is without a terminal, and with -o json.")
@click.option("--sort", type=click.Choice(sorted(SORTS)), default="items", show_default=True, help="By which column.")
@click.option(
    "--interval", type=click.FloatRange(1, 3600), default=2.0, show_default=True, help="Seconds between two looks."
)
@of_a_mount
@OUTPUT
@click.pass_obj
def top(
    target: Target,
    namespace: str | None,
    all_namespaces: bool,
    once: bool,
    sort: str,
    interval: float,
    mount: LocalMountPath | None,
    output: str,
) -> None:
    """Show what workloads do now: phase, epoch, items a second, stall, and the last change with its gain.

    A workload is a pod that reads a Dataset; each node tells of ten. CHANGED is the last change of a knob that came to
    something, and GAIN what it made of the items a second. ORDER is whether a pod reads as its sampling says, with the
    share of its last 500 reads. Ctrl-C ends it.

    With --mount: all that reads a `stoker mount` on this machine, which was made with --observe.
    """
    wanted = "" if all_namespaces else namespace or target.own_namespace
    live = not once and output == "table" and sys.stdout.isatty()
    with refusals():
        if mount is not None:
            asyncio.run(_show(mount.find(), "", sort, output, interval if live else None))
            return
        asyncio.run(_top(target, wanted, sort, output, interval if live else None))


async def _top(target: Target, namespace: str, by: str, output: str, interval: float | None) -> None:
    async with connect(target) as cluster:
        await _show(cluster, namespace, by, output, interval)


async def _show(source: "WorkloadSource", namespace: str, by: str, output: str, interval: float | None) -> None:
    if interval is not None:
        await follow(source, namespace, by, interval)
        return
    rows = top_rows(await source.node_caches(), namespace, by)
    if output == "json":
        print_json([row.wire() for row in rows])
    elif rows:
        console().print(top_table(rows))
    else:
        click.echo(_nothing(namespace, source), err=True)


class WorkloadSource(Protocol):
    """Who knows what the nodes say."""

    async def node_caches(self) -> list[NodeCache]:
        """Return every node's cache. Raises CliError."""


async def follow(cluster: WorkloadSource, namespace: str, by: str, interval: float) -> None:
    """Show the workloads again every ``interval`` seconds, until cancelled. Raises CliError."""
    with Live(console=console(), auto_refresh=False) as live:
        while True:
            rows = top_rows(await cluster.node_caches(), namespace, by)
            live.update(top_table(rows) if rows else _nothing(namespace, cluster), refresh=True)
            await asyncio.sleep(interval)


def _nothing(namespace: str, source: WorkloadSource) -> str:
    if isinstance(source, LocalMount):
        return f"Nobody has read {printable(str(source.folder))} lately: who does shows up within 10 s."
    if not namespace:
        return "No node knows of a workload yet: pods that read a Dataset show up within 10 s."
    return f"No node knows of a workload in namespace {namespace} (-A shows all namespaces)."
