"""The command `stoker why` for a pod, or for the pods of a job."""

from collections.abc import Sequence
from dataclasses import replace

import click
from rich.console import Group, RenderableType

from stoker_api.node_caches.node_storage import NodeMount
from stoker_cli.access.cluster import Cluster, Target, connect
from stoker_cli.access.pod_figures import ASK_FOR_NODES
from stoker_cli.output import console, plain
from stoker_cli.pods import failing_reads
from stoker_cli.pods.subject import Object, Subject, find_subject
from stoker_cli.pods.why import PodExplanation, awaited_datasets, by_urgency, dumps, explain
from stoker_cli.render import table

_MOST = 5  # pods of a job; most wait for the same data


async def show_why(target: Target, name: str, output: str) -> None:
    """Print why pods wait or run on their nodes. Raises CliError."""
    async with connect(target) as cluster:
        subject = await find_subject(cluster, name)
        explanations = [await explained_pod(cluster, pod) for pod in by_urgency(subject.pods)[:_MOST]]
    if output == "json":
        click.echo(dumps(explanations[0] if subject.kind == "Pod" else explanations))
        return
    for line in _head(subject):
        click.echo(line)
    for item in explanations:
        console().print(explanation(item))


async def explained_pod(cluster: Cluster, pod: Object) -> PodExplanation:
    """Read what an explanation of a pod needs, and return the explanation. Raises KubeError."""
    datasets = await cluster.readable_datasets(awaited_datasets(pod))
    cache, owners = await cluster.cache_of(dict(pod)), await cluster.owners(pod)
    read = await cluster.readable_datasets(failing_reads.named_datasets(pod)) if cache is None else []
    failing = failing_reads.sentences(pod, cache, read)
    mounts: Sequence[NodeMount] = cache.status.mounts if cache is not None else ()
    if cluster.node_caches_refused:
        mounts = await cluster.shown_mounts(pod)
    explained = explain(pod, await cluster.events(dict(pod)), mounts, datasets, owners, failing)
    if not cluster.node_caches_refused:
        return explained
    return replace(explained, lines=(*explained.lines, f"Its mount mode is unknown. {ASK_FOR_NODES}"))


def _head(subject: Subject) -> Sequence[str]:
    """Return the lines above the pods of a job: their number, and the conditions of the job."""
    if subject.kind == "Pod":
        return ()
    count = len(subject.pods)
    shown = f"{_MOST} of its {count} pods" if count > _MOST else f"{count} pods" if count else "no pods"
    return [f"{subject.kind} {subject.name}: {shown}", *map(plain, subject.conditions)]


def explanation(item: PodExplanation) -> RenderableType:
    """Return the sentences and the events of a pod."""
    parts: list[RenderableType] = [plain(f"pod {item.pod}: {item.state}"), *(plain(f"  {line}") for line in item.lines)]
    if item.events:
        events = ((event["time"], event["reason"], event["message"]) for event in item.events)
        parts += ["", table(("TIME", "REASON", "MESSAGE"), events)]
    return Group(*parts)
