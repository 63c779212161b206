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
from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import parse_duration
from stoker_cli import render, rows
from stoker_cli.access.cluster import Cluster, Target, connect
from stoker_cli.dashboard.command import dashboard, dashboard_server
from stoker_cli.datasets import waiting, warm_paths
from stoker_cli.datasets.warm_paths import WarmRequest, check_applied, check_nodes, read_nodes
from stoker_cli.local import mount as mount_program
from stoker_cli.nodes.node_answers import show_nodes
from stoker_cli.output import OUTPUT, WIDE_OUTPUT, console, print_json, refusals
from stoker_cli.pods import release_pods
from stoker_cli.pods.report import report
from stoker_cli.pods.top import top
from stoker_cli.pods.why_command import show_why
from stoker_cli.profile.command import profile
from stoker_cli.support.commands import completion, doctor, support_bundle, validate
from stoker_cli.tuning.command import tuning


def run(work: Coroutine[None, None, None]) -> None:
    """Run a command on the cluster, and print its errors."""
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
    """Show which training data is warm, warm it, and explain why a pod waits.

    Exit codes: 0 success, 1 the Dataset failed or the wait timed out, 2 wrong usage, 3 not found, 4 no connection.
    """
    context.obj = Target(kubeconfig, kube_context, namespace)


main.add_command(tuning)
main.add_command(top)
main.add_command(profile)
main.add_command(report)
main.add_command(dashboard)
main.add_command(dashboard_server)
main.add_command(doctor)
main.add_command(support_bundle)
main.add_command(validate)
main.add_command(completion)


def with_namespace(target: Target, namespace: str | None) -> Target:
    """Make `stoker status -n X` work as `stoker -n X status` does."""
    return replace(target, namespace=namespace) if namespace else target


NAMESPACE = click.option("-n", "--namespace", help="Default: the context's namespace.")


@main.command()
@click.argument("dataset", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="List Datasets of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="With DATASET: follow its progress until it settles.")
@click.option("--timeout", default="24h", show_default=True, help="Time limit of --watch.")
@click.option("--nodes", "ask", is_flag=True, help="Query all nodes directly for complete figures.")
@click.option("--node-timeout", default="10s", show_default=True, help="With --nodes: time limit per node.")
@NAMESPACE
@WIDE_OUTPUT
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
    """Show how warm Datasets are. On a terminal, the progress of DATASET is shown live.

    Statuses are limited in size: a Dataset lists 50 of its nodes, a node ten workloads. --nodes queries the sidecars
    through the API server, 32 at a time, and shows an error for each node without an answer. It needs the permission
    to forward ports to Stoker's pods.
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
        console().print(render.datasets(datasets, wide=output == "wide"))
    else:
        click.echo(f"No Datasets in namespace {namespace} (-A shows all namespaces).", err=True)


@main.command()
@click.argument("dataset")
@click.argument("paths", metavar="[PATH...]", nargs=-1)
@click.option(
    "--list",
    "listed",
    type=click.File("rb"),
    help="Read more paths from FILE (UTF-8, one per line, # starts a comment); - reads standard input.",
)
@click.option(
    "--list-in-dataset",
    "list_name",
    metavar="PATH",
    help="File inside DATASET with up to 200000 paths (spec.warm.list).",
)
@click.option(
    "--nodes", "nodes_named", metavar="NAME[,NAME...]", help="Warm on these nodes only; replaces cache.replicas."
)
@click.option("--any-node", is_flag=True, help="Clear the node names set by --nodes.")
@click.option(
    "--pages/--no-pages",
    default=None,
    help="Also read the data into the memory of the nodes, if it fits; --no-pages turns this off.",
)
@click.option("--forecast", is_flag=True, help="Print the expected bytes, requests, time and cost, and fetch nothing.")
@click.option("--all", "everything", is_flag=True, help="Warm everything; clears paths and list in the spec.")
@click.option("--wait", is_flag=True, help="Wait until it is warm; exit code 1 if it fails or a path matches no file.")
@click.option("--timeout", default="1h", show_default=True, help="Time limit of --wait.")
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
    """Fetch DATASET onto its nodes now, for any warm.policy.

    PATHs are folders, files, or patterns such as 'train/**/*.tar' (spec.warm.paths). Only they are fetched, in this
    order; all other files are fetched when pods read them. Without PATHs, the paths or the list of the spec are
    fetched, or everything.
    """
    with refusals():
        chosen, nodes = warm_paths.read(paths, listed), read_nodes(nodes_named, anywhere=any_node)
        named = warm_paths.read_list_name(list_name, chosen, everything=everything)
    if everything and chosen is not None:
        raise click.UsageError("--all takes no paths")
    request = WarmRequest(() if everything else chosen, named, nodes, pages)
    if forecast and (request.changes() or wait):
        raise click.UsageError("--forecast excludes paths and all other options")
    if forecast:
        run(_forecast(with_namespace(target, namespace), dataset))
        return
    run(_warm(with_namespace(target, namespace), dataset, request, wait, _seconds(timeout)))


@main.command()
@click.argument("dataset")
@click.option("--wait", is_flag=True, help="Wait until the new version is warm; exit code 1 if it fails.")
@click.option("--timeout", default="1h", show_default=True, help="Time limit of --wait.")
@NAMESPACE
@click.pass_obj
def refresh(target: Target, dataset: str, wait: bool, timeout: str, namespace: str | None) -> None:
    """Check the source of DATASET for changes; new pods read the new version. --wait reports whether it changed."""
    run(_refresh(with_namespace(target, namespace), dataset, wait, _seconds(timeout)))


async def _warm(target: Target, name: str, request: WarmRequest, wait: bool, timeout: float) -> None:
    async with connect(target) as cluster:
        if request.nodes:
            check_nodes(request.nodes, [cache.metadata.name for cache in await cluster.readable_node_caches()])
        check_applied(request, await cluster.warm(name, request.changes()))
        await _follow(cluster, name, waiting.warm if wait else None, timeout)


async def _forecast(target: Target, name: str) -> None:
    async with connect(target) as cluster:
        click.echo(rows.forecast(await cluster.dataset(name)))


async def _refresh(target: Target, name: str, wait: bool, timeout: float) -> None:
    async with connect(target) as cluster:
        before = (await cluster.dataset(name)).status.version
        asked = await cluster.annotate(name, names.ANNOTATION_REFRESH_REQUESTED)
        after = await _follow(cluster, name, waiting.refreshed(asked) if wait else None, timeout)
        if after is not None:
            click.echo(rows.what_changed(before, after))


async def _follow(cluster: Cluster, name: str, done: waiting.Done | None, timeout: float) -> Dataset | None:
    """Print how to follow a Dataset, or follow it until it is ``done`` and return it."""
    stoker = f"stoker -n {cluster.namespace}"
    click.echo(f"Requested {cluster.namespace}/{name}." + ("" if done else f" Follow it with: {stoker} status {name}"))
    if not done:
        return None
    try:
        return await waiting.until(lambda: cluster.dataset(name), done, console(), timeout)
    except asyncio.CancelledError:  # Ctrl-C
        click.echo(
            f"The warm-up continues. Follow it: {stoker} status {name}. Pause it: {stoker} pause {name}", err=True
        )
        raise


@main.command()
@click.argument("dataset")
@NAMESPACE
@click.pass_obj
def pause(target: Target, dataset: str, namespace: str | None) -> None:
    """Pause warming of DATASET. Pods can still read it."""
    run(_pause(with_namespace(target, namespace), dataset, paused=True))


@main.command()
@click.argument("dataset")
@NAMESPACE
@click.pass_obj
def resume(target: Target, dataset: str, namespace: str | None) -> None:
    """Resume warming of DATASET after `stoker pause`."""
    run(_pause(with_namespace(target, namespace), dataset, paused=False))


async def _pause(target: Target, name: str, paused: bool) -> None:
    async with connect(target) as cluster:
        await cluster.pause(name, paused)
        click.echo(f"{cluster.namespace}/{name} is {'paused' if paused else 'warming again'}.")


@main.command()
@click.argument("name", metavar="POD|job/NAME|tj/NAME")
@NAMESPACE
@OUTPUT
@click.pass_obj
def why(target: Target, name: str, namespace: str | None, output: str) -> None:
    """Explain why a pod waits, or why it runs on its node, and how it reads its data.

    For a Job or TrainingJob, explains its first pods, held ones first.
    """
    run(show_why(with_namespace(target, namespace), name, output))


@main.command()
@click.argument("name", metavar="POD|job/NAME|tj/NAME")
@NAMESPACE
@click.pass_obj
def release(target: Target, name: str, namespace: str | None) -> None:
    """Release held pods now, even if their data is cold.

    Missing data is read from the source. Needs the permission to patch pods, which the role `edit` includes. Pods that
    are not held, and scheduling gates of other controllers, stay as they are.
    """
    run(_release(with_namespace(target, namespace), name))


async def _release(target: Target, name: str) -> None:
    async with connect(target) as cluster:
        click.echo(await release_pods.release(cluster, name))


@main.command("version")
@OUTPUT
def show_version(output: str) -> None:
    """Show the version of this program."""
    if output == "json":
        print_json({"version": version("stoker")})
    else:
        click.echo(f"stoker, version {version('stoker')}")


@main.command()
@WIDE_OUTPUT
@click.pass_obj
def nodes(target: Target, output: str) -> None:
    """Show the cache contents of each node."""
    run(_nodes(target, output))


async def _nodes(target: Target, output: str) -> None:
    async with connect(target) as cluster:
        caches = await cluster.node_caches()
        if output == "json":
            print_json([cache.wire() for cache in caches])
        elif caches:
            console().print(render.node_caches(caches, wide=output == "wide"))
        else:
            click.echo(
                "No NodeCaches. Check the sidecars: kubectl get pods -A -l app.kubernetes.io/name=stoker",
                err=True,
            )


# The program of `stoker mount` parses all options, including --help.
PASSED_ON = {"ignore_unknown_options": True, "help_option_names": []}


@main.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mount(arguments: tuple[str, ...]) -> None:
    """Mount a bucket as a folder on this machine, without Kubernetes."""
    mount_program.exec_program("mount", arguments)


@main.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def umount(arguments: tuple[str, ...]) -> None:
    """Unmount a `stoker mount`."""
    mount_program.exec_program("umount", arguments)


@main.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def cache(arguments: tuple[str, ...]) -> None:
    """Drop the kernel's caches of a `stoker mount`, for benchmarks."""
    mount_program.exec_program("cache", arguments)


def _seconds(text: str, option: str = "--timeout") -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error
