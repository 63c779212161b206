"""The commands of `stoker`, also found by kubectl as `kubectl stoker`."""

import asyncio
import sys
from collections.abc import Coroutine
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import click

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.meta import parse_duration
from stoker_cli import mount as mount_program
from stoker_cli import render, rows, waiting, warm_paths
from stoker_cli.awaited import awaited_datasets
from stoker_cli.cluster import Cluster, Target, connect
from stoker_cli.node_status import show_nodes
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.profile import profile
from stoker_cli.report import report
from stoker_cli.top import top
from stoker_cli.tuning import tuning
from stoker_cli.warm_request import WarmRequest, check_nodes, check_taken, read_nodes
from stoker_cli.why import dumps, explain


def run(work: Coroutine[None, None, None]) -> None:
    """Run one command that asks the cluster; refusals are told."""
    with refusals():
        asyncio.run(work)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("stoker"), prog_name="stoker")
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Default: $KUBECONFIG or ~/.kube/config."
)
@click.option("--context", "kube_context", help="Context of the kubeconfig.")
@click.option("-n", "--namespace", help="Default: the context's namespace.")
@click.pass_context
def main(context: click.Context, /, kubeconfig: Path | None, kube_context: str | None, namespace: str | None) -> None:
    """See what training data is warm, warm it, and learn why a pod waits.

    Exit codes: 0 good, 1 the dataset failed or the wait ran out, 2 wrong usage, 3 not found, 4 cluster not reachable.
    """
    context.obj = Target(kubeconfig, kube_context, namespace)


main.add_command(tuning)
main.add_command(top)
main.add_command(profile)
main.add_command(report)


def with_namespace(target: Target, namespace: str | None) -> Target:
    """Make `stoker status -n X` work as `stoker -n X status` does."""
    return replace(target, namespace=namespace) if namespace else target


NAMESPACE = click.option("-n", "--namespace", help="Default: the context's namespace.")


@main.command()
@click.argument("dataset", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Datasets of every namespace.")
@click.option("-w", "--watch", is_flag=True, help="With DATASET: follow it until it is settled.")
@click.option("--timeout", default="24h", show_default=True, help="How long --watch follows.")
@click.option("--nodes", "ask", is_flag=True, help="Ask the nodes themselves: all of them, and all that each has.")
@click.option(
    "--node-timeout", default="10s", show_default=True, help="With --nodes: how long each may take to answer."
)
@NAMESPACE
@OUTPUT
@click.pass_obj
def status(
    target: Target,
    dataset: str | None,
    all_namespaces: bool,
    watch: bool,
    timeout: str,
    ask: bool,
    node_timeout: str,
    namespace: str | None,
    output: str,
) -> None:
    """How warm Datasets are; on a terminal a moving DATASET is followed live.

    Statuses stay small: a Dataset names 50 of its nodes and counts the others, a node tells of ten workloads. With
    --nodes each node's sidecar is asked itself, through the API server, 32 at a time; a node that does not answer is a
    row that says why. That takes the right to forward ports to Stoker's pods.
    """
    if ask:
        run(show_nodes(with_namespace(target, namespace), dataset, _seconds(node_timeout, "--node-timeout"), output))
        return
    run(_status(with_namespace(target, namespace), dataset, all_namespaces, watch, _seconds(timeout), output))


async def _status(target: Target, name: str | None, everywhere: bool, watch: bool, timeout: float, output: str) -> None:
    async with connect(target) as cluster:
        if name is None:
            _show_all(await cluster.datasets(everywhere), cluster.namespace, output)
        else:
            await _show_one(cluster, await cluster.dataset(name), watch, timeout, output)


async def _show_one(cluster: Cluster, dataset: Dataset, watch: bool, timeout: float, output: str) -> None:
    if output == "json":
        print_json(dataset.wire())
    elif watch or (sys.stdout.isatty() and not rows.settled(dataset)):
        await waiting.until(lambda: cluster.dataset(dataset.metadata.name), rows.settled, console(), timeout)
    else:
        console().print(render.dataset(dataset, await cluster.readable_node_caches()))


def _show_all(datasets: list[Dataset], namespace: str, output: str) -> None:
    if output == "json":
        print_json([dataset.wire() for dataset in datasets])
    elif datasets:
        console().print(render.datasets(datasets))
    else:
        click.echo(f"No Datasets in namespace {namespace} (-A shows all namespaces).", err=True)


@main.command()
@click.argument("dataset")
@click.argument("paths", metavar="[PATH...]", nargs=-1)
@click.option(
    "--list",
    "listed",
    type=click.File("rb"),
    help="Paths in UTF-8, one a line, behind those of the command line; - reads standard input. # begins a comment.",
)
@click.option(
    "--list-in-dataset",
    "list_name",
    metavar="PATH",
    help="A file of DATASET itself that lists them, up to 200000 (spec.warm.list).",
)
@click.option(
    "--nodes", "nodes_named", metavar="NAME[,NAME...]", help="Just these nodes, whatever cache.replicas says."
)
@click.option("--any-node", is_flag=True, help="No longer on named nodes alone.")
@click.option(
    "--pages/--no-pages",
    default=None,
    help="Bring it into the nodes' memory too, as far as there is room; --no-pages: no longer.",
)
@click.option(
    "--forecast", is_flag=True, help="Only say what it would take: bytes of the source, requests, time, cost."
)
@click.option("--all", "everything", is_flag=True, help="All of it again, where the spec has paths or a list.")
@click.option(
    "--wait", is_flag=True, help="Return when it is warm; exit code 1 when it failed or a path names nothing."
)
@click.option("--timeout", default="1h", show_default=True, help="How long --wait waits.")
@NAMESPACE
@click.pass_obj
def warm(
    target: Target,
    dataset: str,
    paths: tuple[str, ...],
    listed: BinaryIO | None,
    list_name: str | None,
    nodes_named: str | None,
    any_node: bool,
    pages: bool | None,
    forecast: bool,
    everything: bool,
    wait: bool,
    timeout: str,
    namespace: str | None,
) -> None:
    """Fetch DATASET onto its nodes now, whatever its warm.policy.

    With PATHs only these, in this order, and the rest as it is read: folders, files, or patterns such as
    'train/**/*.tar' (spec.warm.paths). Without: what the spec says, which is all of it where it has no paths and no
    list.
    """
    with refusals():
        chosen, nodes = warm_paths.read(paths, listed), read_nodes(nodes_named, anywhere=any_node)
        named = warm_paths.read_list_name(list_name, chosen, everything=everything)
    if everything and chosen is not None:
        raise click.UsageError("--all takes no paths")
    request = WarmRequest(() if everything else chosen, named, nodes, pages)
    if forecast and (request.changes() or wait):
        raise click.UsageError("--forecast is of what the spec says, and changes nothing: give it alone")
    if forecast:
        run(_forecast(with_namespace(target, namespace), dataset))
        return
    run(_warm(with_namespace(target, namespace), dataset, request, wait, _seconds(timeout)))


@main.command()
@click.argument("dataset")
@click.option("--wait", is_flag=True, help="Return when the new version is warm; exit code 1 when it failed.")
@click.option("--timeout", default="1h", show_default=True, help="How long --wait waits.")
@NAMESPACE
@click.pass_obj
def refresh(target: Target, dataset: str, wait: bool, timeout: str, namespace: str | None) -> None:
    """List the source of DATASET again; new pods get what changed."""
    run(_refresh(with_namespace(target, namespace), dataset, wait, _seconds(timeout)))


async def _warm(target: Target, name: str, request: WarmRequest, wait: bool, timeout: float) -> None:
    async with connect(target) as cluster:
        if request.nodes:
            check_nodes(request.nodes, [cache.metadata.name for cache in await cluster.readable_node_caches()])
        check_taken(request, await cluster.warm(name, request.changes()))
        await _follow(cluster, name, waiting.warm if wait else None, timeout)


async def _forecast(target: Target, name: str) -> None:
    async with connect(target) as cluster:
        click.echo(rows.forecast(await cluster.dataset(name)))


async def _refresh(target: Target, name: str, wait: bool, timeout: float) -> None:
    async with connect(target) as cluster:
        asked = await cluster.annotate(name, names.ANNOTATION_REFRESH_REQUESTED)
        await _follow(cluster, name, waiting.refreshed(asked) if wait else None, timeout)


async def _follow(cluster: Cluster, name: str, done: waiting.Done | None, timeout: float) -> None:
    click.echo(f"Asked for {cluster.namespace}/{name}." + ("" if done else f" Follow it with: stoker status {name}"))
    if done:
        try:
            await waiting.until(lambda: cluster.dataset(name), done, console(), timeout)
        except asyncio.CancelledError:  # Ctrl-C
            click.echo(f"It goes on: stoker status {name} follows it, and stoker pause {name} holds it.", err=True)
            raise


@main.command()
@click.argument("dataset")
@NAMESPACE
@click.pass_obj
def pause(target: Target, dataset: str, namespace: str | None) -> None:
    """Hold the warming of DATASET; pods go on reading."""
    run(_pause(with_namespace(target, namespace), dataset, paused=True))


@main.command()
@click.argument("dataset")
@NAMESPACE
@click.pass_obj
def resume(target: Target, dataset: str, namespace: str | None) -> None:
    """Go on warming DATASET after `stoker pause`."""
    run(_pause(with_namespace(target, namespace), dataset, paused=False))


async def _pause(target: Target, name: str, paused: bool) -> None:
    async with connect(target) as cluster:
        await cluster.pause(name, paused)
        click.echo(f"{cluster.namespace}/{name} is {'paused' if paused else 'warming again'}.")


@main.command()
@click.argument("pod")
@NAMESPACE
@OUTPUT
@click.pass_obj
def why(target: Target, pod: str, namespace: str | None, output: str) -> None:
    """Why POD waits, or why it landed where it did, and how it reads."""
    run(_why(with_namespace(target, namespace), pod, output))


async def _why(target: Target, name: str, output: str) -> None:
    async with connect(target) as cluster:
        pod = await cluster.pod(name)
        datasets = await cluster.readable_datasets(awaited_datasets(pod))
        explanation = explain(pod, await cluster.events(pod), await cluster.mounts(pod), datasets)
        if output == "json":
            click.echo(dumps(explanation))
        else:
            console().print(render.explanation(explanation))


@main.command()
@OUTPUT
@click.pass_obj
def nodes(target: Target, output: str) -> None:
    """Show what each node's cache holds."""
    run(_nodes(target, output))


async def _nodes(target: Target, output: str) -> None:
    async with connect(target) as cluster:
        caches = await cluster.node_caches()
        if output == "json":
            print_json([cache.wire() for cache in caches])
        elif caches:
            console().print(render.node_caches(caches))
        else:
            click.echo(
                "No NodeCaches yet: is the sidecar's DaemonSet running? "
                "kubectl get pods -A -l app.kubernetes.io/name=stoker",
                err=True,
            )


# No options of their own: the program behind them has them all, --help too.
PASSED_ON = {"ignore_unknown_options": True, "help_option_names": []}


@main.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mount(arguments: tuple[str, ...]) -> None:
    """Show a bucket as a folder on this machine, without Kubernetes."""
    mount_program.become("mount", arguments)


@main.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def umount(arguments: tuple[str, ...]) -> None:
    """End a `stoker mount`."""
    mount_program.become("umount", arguments)


@main.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def cache(arguments: tuple[str, ...]) -> None:
    """Drop what the kernel keeps in memory of a `stoker mount`, for benchmarks."""
    mount_program.become("cache", arguments)


def _seconds(text: str, option: str = "--timeout") -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error
