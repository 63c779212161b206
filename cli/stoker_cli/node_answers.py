"""Asks each node's sidecar itself, many at a time, for `stoker status --nodes`; what does not answer is a row."""

import asyncio
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from stoker_api.meta import format_bytes, format_duration, shortened
from stoker_api.node_answer import NodeAnswer
from stoker_api.nodecache import NodeCache, NodePhase
from stoker_cli.rows import UNKNOWN
from stoker_cli.tuning_rows import printable
from stoker_kube.errors import Forbidden, KubeError, NotFound

Object = Mapping[str, Any]

AT_ONCE = 32  # nodes that are asked together: each holds a connection to the API server and one to its kubelet
MOST_SENTENCE = 200
NODE_COLUMNS = ("NODE", "DATASETS", "WARM", "WARMING", "FAILED", "USED", "FREE", "MOUNTS", "WORKLOADS", "ANSWER")
DATASET_COLUMNS = ("NODE", "PHASE", "WARM", "SHARE", "SPEED", "ETA", "MODE", "MOUNTS", "WORKLOADS", "ANSWER")
_READY = frozenset({NodePhase.WARM, NodePhase.PATHS_WARM})


class AskedCluster(Protocol):
    """Who reaches the nodes' sidecars."""

    async def readable_node_caches(self) -> list[NodeCache]:
        """Return every node's cache; nothing for who may not read them."""

    async def sidecars(self) -> Sequence[Object]:
        """Return the sidecars' pods."""

    async def ask_node(self, pod: Object, query: str) -> NodeAnswer:
        """Return what a sidecar answers. Raises KubeError and ValueError."""


@dataclass(frozen=True)
class AskedNode:
    """A node with its answer, or with a sentence why there is none."""

    node: str
    answer: NodeAnswer | None = None
    trouble: str = ""

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        told = None if self.answer is None else self.answer.wire()
        return {"node": self.node, "answered": self.answer is not None, "trouble": self.trouble, "status": told}

    def row(self) -> Sequence[str]:
        """Make a row of ``NODE_COLUMNS``."""
        known = self.answer
        if known is None:
            return (self.node, *[UNKNOWN] * (len(NODE_COLUMNS) - 2), self.trouble)
        phases = [row.phase for row in known.datasets]
        counts = (len(phases), sum(phase in _READY for phase in phases), phases.count(NodePhase.WARMING))
        sizes = (format_bytes(known.used_bytes), format_bytes(known.available_bytes))
        words = (*map(str, counts), str(phases.count(NodePhase.FAILED)), *sizes, str(len(known.mounts)))
        return (self.node, *words, str(len(known.workloads)), known.trouble or _all_or_less(known))

    def dataset_row(self) -> Sequence[str]:
        """Make a row of ``DATASET_COLUMNS``."""
        known = self.answer
        if known is None or not known.datasets:
            said = self.trouble if known is None else "does not have it"
            return (self.node, *[UNKNOWN] * (len(DATASET_COLUMNS) - 2), said)
        row = known.datasets[0]
        share = f"{100 * row.warm_bytes / row.bytes:.0f}%" if row.bytes else UNKNOWN
        speed = f"{format_bytes(row.bytes_per_second)}/s" if row.bytes_per_second else UNKNOWN
        eta = UNKNOWN if row.eta_seconds is None else format_duration(row.eta_seconds)
        mode = str(row.mode) if row.mode else UNKNOWN
        said = printable(shortened(row.error.message, MOST_SENTENCE)) if row.error else "ok"
        counts = (str(len(known.mounts)), str(len(known.workloads)))
        return (self.node, str(row.phase), format_bytes(row.warm_bytes), share, speed, eta, mode, *counts, said)


async def ask_nodes(
    cluster: AskedCluster, dataset: str, seconds: float, seen: Callable[[int, int], None]
) -> list[AskedNode]:
    """Ask every node, and return a row for each, by name.

    ``dataset``: NAMESPACE/NAME, about which alone they are asked; empty: about all. ``seconds``: that each may take.
    ``seen`` is told how many of how many have answered, or will not.
    """
    caches, pods = await cluster.readable_node_caches(), by_node(await cluster.sidecars())
    names = sorted({cache.metadata.name for cache in caches} | pods.keys())
    query = urllib.parse.urlencode({"dataset": dataset}) if dataset else ""
    slots, done = asyncio.Semaphore(AT_ONCE), 0

    async def ask(node: str) -> AskedNode:
        nonlocal done
        async with slots:
            found = await _ask(cluster, node, pods.get(node), query, seconds)
        done += 1
        seen(done, len(names))
        return found

    return await asyncio.gather(*map(ask, names))


def by_node(pods: Iterable[Object]) -> dict[str, Object]:
    """Return the sidecar's pod of each node: the one that is ready, where there are two at an upgrade."""
    found: dict[str, Object] = {}
    for pod in pods:
        node = str(pod["spec"].get("nodeName") or "")
        if node and not pod["metadata"].get("deletionTimestamp") and (node not in found or _is_ready(pod)):
            found[node] = pod
    return found


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def _ask(cluster: AskedCluster, node: str, pod: Object | None, query: str, seconds: float) -> AskedNode:
    if pod is None:
        return AskedNode(node, trouble="no sidecar runs there: kubectl get pods -A -l app.kubernetes.io/name=stoker")
    try:
        async with asyncio.timeout(seconds):
            answer = await cluster.ask_node(pod, query)
    except TimeoutError:
        return AskedNode(node, trouble=f"its sidecar did not answer within {seconds:g} s")
    except NotFound:
        return AskedNode(node, trouble="its sidecar is of a version that cannot be asked, or has just gone")
    except Forbidden:
        return AskedNode(node, trouble="you may not ask it: that takes get and create of pods/portforward there")
    except KubeError as error:
        return AskedNode(node, trouble=_sentence(error.message))
    except (ValidationError, ValueError):
        return AskedNode(node, trouble="its sidecar answered what is no answer: is it of another version?")
    if answer.node != node:
        return AskedNode(node, trouble="the answer is of another node")
    return AskedNode(node, answer)


def _all_or_less(known: NodeAnswer) -> str:
    """Say that an answer has all, or what the node itself does not remember any more."""
    left = known.ended_left_out
    return f"ok; {left:,} pods that ended were left out within their hour" if left else "ok"


def _sentence(text: str) -> str:
    return printable(shortened(" ".join(text.split()), MOST_SENTENCE))
