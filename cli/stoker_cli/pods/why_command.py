"""The command `stoker why` for a pod, or for the pods of a job, and the failing reads of a pod."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import click
from rich.console import Group, RenderableType

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.access.cluster import Cluster, Target, connect
from stoker_cli.access.pod_figures import ASK_FOR_NODES
from stoker_cli.output import console, plain
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
    read = await cluster.readable_datasets(named_datasets(pod)) if cache is None else []
    failing = sentences(pod, cache, read)
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


_READS = "reads of pods "  # prefix in lastError of a node in the status of a Dataset


def named_datasets(pod: Object) -> list[tuple[str, str]]:
    """Return namespace and name of each Dataset in the annotation, volumes and claims of a pod."""
    own = pod["metadata"]["namespace"]
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_DATASETS, "")
    keys = (piece.partition(":")[0].partition("@")[0].strip() for piece in text.split(","))
    datasets = dict.fromkeys((home or own, name) for home, _, name in (key.rpartition("/") for key in keys if key))
    for volume in pod["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        csi = volume.get("csi") or {}
        attributes = csi.get("volumeAttributes") or {} if csi.get("driver") == names.CSI_DRIVER else {}
        name = attributes.get(names.CSI_ATTRIBUTE_DATASET) or claim
        if name:
            datasets[attributes.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or own, name] = None
    return list(datasets)


def sentences(pod: Object, cache: NodeCache | None, datasets: Iterable[Dataset] = ()) -> tuple[str, ...]:
    """Return a sentence for each Dataset whose reads fail on the node of the pod.

    ``cache``: the NodeCache of the node. Without it, the rows in ``datasets`` are used.
    """
    return tuple(_by_node(pod, cache) if cache is not None else _by_datasets(pod, datasets))


def _by_node(pod: Object, cache: NodeCache) -> Iterator[str]:
    own = [mount for mount in cache.status.mounts if mount.pod_uid == pod["metadata"].get("uid")]
    mounted = {
        (mount.dataset_namespace, mount.dataset, mount.version) for mount in own if mount.phase is MountPhase.MOUNTED
    }
    for row in cache.status.datasets:
        reads = row.failing_reads
        if reads is not None and (row.namespace, row.name, reads.version) in mounted:
            yield reads.sentence(f"Its reads of the Dataset {row.namespace}/{row.name}")


def _by_datasets(pod: Object, datasets: Iterable[Dataset]) -> Iterator[str]:
    node = pod["spec"].get("nodeName")
    for dataset in datasets:
        for row in dataset.status.nodes:
            if row.name == node and row.last_error.startswith(_READS):
                yield f"Its node's reads of the Dataset {dataset.key} {row.last_error.removeprefix(_READS)}"
