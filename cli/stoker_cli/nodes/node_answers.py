"""Queries the sidecars of all nodes for `stoker status --nodes`. A node without an answer is a row with an error."""

import asyncio
import sys
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import click
from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress

from stoker_api.meta import format_bytes, format_duration, shortened
from stoker_api.node_caches.node_answer import NodeAnswer
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.access.cluster import Target, connect
from stoker_cli.errors import UNREACHABLE, CliError
from stoker_cli.output import console, print_json, printable
from stoker_cli.render import table
from stoker_cli.rows import UNKNOWN
from stoker_kube.errors import Forbidden, KubeError, NotFound

Object = Mapping[str, Any]

AT_ONCE = 32  # concurrent queries; each has a connection to the API server and one to a kubelet
MOST_SENTENCE = 200
NODE_COLUMNS = ("NODE", "DATASETS", "WARM", "WARMING", "FAILED", "USED", "FREE", "MOUNTS", "WORKLOADS", "ANSWER")
DATASET_COLUMNS = ("NODE", "PHASE", "WARM", "SHARE", "SPEED", "ETA", "MODE", "MOUNTS", "WORKLOADS", "ANSWER")
_READY = frozenset({NodePhase.WARM, NodePhase.PATHS_WARM})


class SidecarQueries(Protocol):
    """Access to the sidecars."""

    async def readable_node_caches(self) -> list[NodeCache]:
        """Return all NodeCaches, or an empty list if the user may not read them."""

    async def sidecars(self) -> Sequence[Object]:
        """Return the sidecar pods."""

    async def query_node(self, pod: Object, query: str) -> NodeAnswer:
        """Query a sidecar. Raises KubeError and ValueError."""


@dataclass(frozen=True)
class NodeQueryResult:
    """A node with its answer, or with the reason for a missing one."""

    node: str
    answer: NodeAnswer | None = None
    trouble: str = ""

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        status = None if self.answer is None else self.answer.wire()
        return {"node": self.node, "answered": self.answer is not None, "trouble": self.trouble, "status": status}

    def row(self) -> Sequence[str]:
        """Return a row of ``NODE_COLUMNS``."""
        answer = self.answer
        if answer is None:
            return (self.node, *[UNKNOWN] * (len(NODE_COLUMNS) - 2), self.trouble)
        phases = [row.phase for row in answer.datasets]
        counts = (len(phases), sum(phase in _READY for phase in phases), phases.count(NodePhase.WARMING))
        sizes = (format_bytes(answer.used_bytes), format_bytes(answer.available_bytes))
        words = (*map(str, counts), str(phases.count(NodePhase.FAILED)), *sizes, str(len(answer.mounts)))
        return (self.node, *words, str(len(answer.workloads)), answer.trouble or _all_or_less(answer))

    def dataset_row(self) -> Sequence[str]:
        """Return a row of ``DATASET_COLUMNS``."""
        answer = self.answer
        if answer is None or not answer.datasets:
            reason = self.trouble if answer is None else "not on this node"
            return (self.node, *[UNKNOWN] * (len(DATASET_COLUMNS) - 2), reason)
        row = answer.datasets[0]
        share = f"{100 * row.warm_bytes / row.bytes:.0f}%" if row.bytes else UNKNOWN
        speed = f"{format_bytes(row.bytes_per_second)}/s" if row.bytes_per_second else UNKNOWN
        eta = UNKNOWN if row.eta_seconds is None else format_duration(row.eta_seconds)
        mode = str(row.mode) if row.mode else UNKNOWN
        state = printable(shortened(row.error.message, MOST_SENTENCE)) if row.error else "ok"
        counts = (str(len(answer.mounts)), str(len(answer.workloads)))
        return (self.node, str(row.phase), format_bytes(row.warm_bytes), share, speed, eta, mode, *counts, state)


async def query_nodes(
    cluster: SidecarQueries, dataset: str, seconds: float, on_progress: Callable[[int, int], None]
) -> list[NodeQueryResult]:
    """Query every node, and return a row for each, by name.

    ``dataset``: NAMESPACE/NAME, or empty for all. ``seconds``: limit per node. ``on_progress``: called with the number
    of finished queries and of nodes.
    """
    caches, pods = await cluster.readable_node_caches(), by_node(await cluster.sidecars())
    names = sorted({cache.metadata.name for cache in caches} | pods.keys())
    query = urllib.parse.urlencode({"dataset": dataset}) if dataset else ""
    slots, done = asyncio.Semaphore(AT_ONCE), 0

    async def ask(node: str) -> NodeQueryResult:
        nonlocal done
        async with slots:
            answer = await _ask(cluster, node, pods.get(node), query, seconds)
        done += 1
        on_progress(done, len(names))
        return answer

    return await asyncio.gather(*map(ask, names))


def by_node(pods: Iterable[Object]) -> dict[str, Object]:
    """Return the sidecar pod of each node. During an upgrade there may be two, then the ready one."""
    by_name: dict[str, Object] = {}
    for pod in pods:
        node = str(pod["spec"].get("nodeName") or "")
        if node and not pod["metadata"].get("deletionTimestamp") and (node not in by_name or _is_ready(pod)):
            by_name[node] = pod
    return by_name


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def _ask(cluster: SidecarQueries, node: str, pod: Object | None, query: str, seconds: float) -> NodeQueryResult:
    if pod is None:
        return NodeQueryResult(node, trouble="no sidecar pod: kubectl get pods -A -l app.kubernetes.io/name=stoker")
    try:
        async with asyncio.timeout(seconds):
            answer = await cluster.query_node(pod, query)
    except TimeoutError:
        return NodeQueryResult(node, trouble=f"no answer within {seconds:g} s (--node-timeout)")
    except NotFound:
        return NodeQueryResult(node, trouble="the sidecar pod is gone, or too old for --nodes")
    except Forbidden:
        return NodeQueryResult(node, trouble="forbidden: needs get and create on pods/portforward in its namespace")
    except KubeError as error:
        return NodeQueryResult(node, trouble=_sentence(error.message))
    except (ValidationError, ValueError):
        return NodeQueryResult(node, trouble="invalid answer: the sidecar may have another version")
    if answer.node != node:
        return NodeQueryResult(node, trouble="the answer is from another node")
    return NodeQueryResult(node, answer)


def _all_or_less(answer: NodeAnswer) -> str:
    """Describe whether an answer is complete."""
    left = answer.ended_left_out
    return f"ok; {left:,} pods that ended in the last hour omitted" if left else "ok"


def _sentence(text: str) -> str:
    return printable(shortened(" ".join(text.split()), MOST_SENTENCE))


async def show_nodes(target: Target, name: str | None, seconds: float, output: str) -> None:
    """Query all nodes about one Dataset or all, and print the answers. Raises CliError if no node answers."""
    async with connect(target) as cluster:
        dataset = (await cluster.dataset(name)).key if name else ""
        with _bar() as seen:
            nodes = await query_nodes(cluster, dataset, seconds, seen)
    if output == "json":
        print_json([node.wire() for node in nodes])
    elif nodes:
        _print(nodes, about_one=bool(dataset))
    if not any(node.answer is not None for node in nodes):
        why = nodes[0].trouble if nodes else "no NodeCache and no sidecar pod found"
        raise CliError(f"No node answered: {why}.", UNREACHABLE)


def _print(nodes: list[NodeQueryResult], *, about_one: bool) -> None:
    shown = nodes
    if about_one:  # omit nodes without the Dataset, unless no node has it
        shown = [node for node in nodes if node.answer is None or node.answer.datasets] or nodes
    columns = DATASET_COLUMNS if about_one else NODE_COLUMNS
    lines = (node.dataset_row() if about_one else node.row() for node in shown)
    console().print(table(columns, lines))
    answered = sum(node.answer is not None for node in nodes)
    left = f"; {len(nodes) - len(shown)} without the Dataset" if len(shown) < len(nodes) else ""
    click.echo(f"{answered} of {len(nodes)} nodes answered{left}.", err=True)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error if that is a terminal."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("querying nodes")
        yield lambda done, of: progress.update(task, completed=done, total=of)
