"""The command `stoker top`: live figures of training pods."""

import asyncio
import sys
import time
from collections.abc import Sequence

import click
from rich.live import Live
from rich.table import Table

from stoker_cli.access.cluster import Target, connect
from stoker_cli.access.pod_figures import WorkloadSource
from stoker_cli.local.local_mounts import LocalMount, LocalMountPath, with_mount_options
from stoker_cli.output import OUTPUT, console, print_json, printable, refusals
from stoker_cli.pods.top_row import SORTS, TopRow, top_rows
from stoker_cli.render import table

COLUMNS = ("POD", "NODE", "PHASE", "EPOCH", "ITEMS/S", "STALL", "AGE", "ORDER", "CHANGED", "GAIN")
# \b keeps click from joining the lines.
_EXAMPLES = """\b
Examples:
  stoker top                          your namespace, refreshed in place
  stoker top -A --sort stall --once   all namespaces, longest stall first
  stoker top -o json | jq '.[].phase'
  stoker top --mount /data            readers of a `stoker mount`
"""


def top_table(rows: Sequence[TopRow]) -> Table:
    """Return the table."""
    now = time.time()
    return table(COLUMNS, (row.words(now) for row in rows))


@click.command(epilog=_EXAMPLES)
@click.option("-n", "--namespace", help="Default: the context's namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Show pods of all namespaces.")
@click.option("--once", is_flag=True, help="Show one snapshot and exit; default without a terminal and with -o json.")
@click.option("--sort", type=click.Choice(sorted(SORTS)), default="items", show_default=True, help="Column to sort by.")
@click.option(
    "--interval", type=click.FloatRange(0.5, 3600), default=1.0, show_default=True, help="Seconds between two updates."
)
@with_mount_options
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
    """Show current figures of workloads: phase, epoch, items per second, stall, and the last tuning change.

    A workload is a pod that reads a Dataset. AGE is the age of its figures. Without the figures API (older charts),
    figures come from NodeCaches: ten pods per node, up to a minute old; ~ marks their progress. CHANGED is the last
    tuning change with an effect, and GAIN its effect on items per second. ORDER is the share of the last 500 reads that
    match the known order. Ctrl-C ends the command.

    With --mount: the readers of a `stoker mount` on this machine that runs with --observe.
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


async def _show(source: WorkloadSource, namespace: str, by: str, output: str, interval: float | None) -> None:
    if interval is not None:
        await follow(source, namespace, by, interval)
        return
    rows = top_rows(await source.workload_caches(namespace), namespace, by)
    if output == "json":
        print_json([row.wire() for row in rows])
    elif rows:
        console().print(top_table(rows))
    else:
        click.echo(_nothing(namespace, source), err=True)


async def follow(cluster: WorkloadSource, namespace: str, by: str, interval: float) -> None:
    """Redraw the workloads every ``interval`` seconds until cancelled. Raises CliError."""
    with Live(console=console(), auto_refresh=False) as live:
        while True:
            rows = top_rows(await cluster.workload_caches(namespace), namespace, by)
            live.update(top_table(rows) if rows else _nothing(namespace, cluster), refresh=True)
            await asyncio.sleep(interval)


def _nothing(namespace: str, source: WorkloadSource) -> str:
    if isinstance(source, LocalMount):
        return f"No recent reads of {printable(str(source.folder))}. New readers appear within 10 s."
    if not namespace:
        return "No workloads. Pods that read a Dataset appear within 10 s."
    return f"No workloads in namespace {namespace} (-A shows all namespaces)."
