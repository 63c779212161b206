"""Collects the figures of a namespace's pods from their nodes. Many callers share one request to a node."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

from stoker_api import names
from stoker_api.jobs.pod_figures import PodFigures
from stoker_kube.api import Listing
from stoker_kube.client import PAGE_SIZE
from stoker_kube.errors import KubeError
from stoker_kube.resources import NODE_CACHES, PODS, Kind
from stoker_operator.core.pod_figures.figures_api import Asked
from stoker_operator.core.pod_figures.pod_figures import NodeWord, ReadablePod, pod_figures, readable_pod, word_of
from stoker_operator.figures.node_client import SidecarAddress, SilentNodeError

T = TypeVar("T")
SIDECARS = "app.kubernetes.io/name=stoker,app.kubernetes.io/component=sidecar"
NODES_AT_ONCE = 32
COLLECT_SECONDS = 5.0  # for all nodes of a request; the rows of slower ones are left out
SILENT_SECONDS = 5.0  # for which a node that gave no good answer is not asked again
WORD_SECONDS, LIST_SECONDS = 0.5, 2.0  # for which answers of nodes, and lists of the API server, are shared
_MOST_SHARED = 4096
_PORT = 8082  # of the chart's sidecars, where a pod's spec names no port for peers


class Lists(Protocol):
    """The lists of an API server."""

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Return all objects that match. Raises KubeError."""

    def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        """Return the same, a page at a time. Raises KubeError."""


class QueriedNode(Protocol):
    """A client of nodes."""

    async def ask(self, node: str, where: SidecarAddress) -> dict[str, Any]:
        """Return a node's answer, as JSON. Raises SilentNodeError."""


@dataclass
class _CachedAnswer(Generic[T]):
    task: asyncio.Task[T]
    began: float


class Shared(Generic[T]):
    """Results that callers share for some seconds, also while they are made. Failures are shared by the same call."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds: Final = seconds
        self._clock: Final = clock
        self._kept: Final[dict[Hashable, _CachedAnswer[T]]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> tuple[T, float]:
        """Return a result, and the seconds since it was asked for. Raises what ``make`` raises."""
        kept = self._kept.get(key)
        if kept is None or (kept.task.done() and self._clock() - kept.began >= self._seconds):
            self._prune()
            kept = self._kept[key] = _CachedAnswer(asyncio.ensure_future(_made(make)), self._clock())
        # A caller that hangs up does not cancel it for other callers.
        return await asyncio.shield(kept.task), self._clock() - kept.began

    def _prune(self) -> None:
        now = self._clock()
        for key in [key for key, one in self._kept.items() if one.task.done() and now - one.began >= self._seconds]:
            one = self._kept.pop(key)
            if not one.task.cancelled():
                one.task.exception()  # read, so that asyncio logs no unused failure
        if len(self._kept) >= _MOST_SHARED:
            self._kept.pop(next(iter(self._kept)))


async def _made(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


class FiguresCollector:
    """Gives figures of pods.

    ``namespace``: where the sidecars run. ``clock`` counts seconds; ``wall`` since the epoch.
    """

    def __init__(
        self,
        kube: Lists,
        namespace: str,
        client: QueriedNode,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._kube: Final = kube
        self._namespace: Final = namespace
        self._client: Final = client
        self._wall: Final = wall
        self._slots: Final = asyncio.Semaphore(NODES_AT_ONCE)
        self._silent: Final[dict[str, tuple[float, str]]] = {}  # until when, and why
        self._clock: Final = clock
        self._words: Final[Shared[NodeWord]] = Shared(WORD_SECONDS, clock)
        self._pods: Final[Shared[list[ReadablePod]]] = Shared(LIST_SECONDS, clock)
        self._sidecars: Final[Shared[dict[str, SidecarAddress]]] = Shared(LIST_SECONDS, clock)

    async def figures(self, asked: Asked) -> list[PodFigures]:
        """Return the figures of one pod, or of all pods that are asked for. Raises KubeError."""
        pods, _ = await self._pods.get(asked, lambda: self._listed(asked))
        asking = {node: asyncio.create_task(self._word(node)) for node in sorted({pod.node for pod in pods})}
        if asking:
            await asyncio.wait(asking.values(), timeout=COLLECT_SECONDS)
        words = {node: task.result() for node, task in asking.items() if task.done()}
        for task in asking.values():
            task.cancel()
        return pod_figures(pods, words, self._wall())

    async def _listed(self, asked: Asked) -> list[ReadablePod]:
        """List the pods. Of a large namespace these are the ones that the webhook changed."""
        if asked.name:
            listing = await self._kube.list(PODS, asked.namespace, field_selector=f"metadata.name={asked.name}")
            return _readable(listing.items)
        async for page in self._kube.pages(PODS, asked.namespace, field_selector="status.phase=Running"):
            if len(page.items) < PAGE_SIZE:
                return _readable(page.items)
            break
        return _readable((await self._kube.list(PODS, asked.namespace, label_selector=names.LABEL_MANAGED)).items)

    async def _word(self, node: str) -> NodeWord:
        word, age = await self._words.get(node, lambda: self._asked(node))
        return word if word.trouble else replace(word, age=age)

    async def _asked(self, node: str) -> NodeWord:
        async with self._slots:
            until, why = self._silent.get(node, (0.0, ""))
            if self._clock() >= until:
                try:
                    sidecars, _ = await self._sidecars.get("", self._addresses)
                    if node not in sidecars:
                        raise SilentNodeError("it has no sidecar that is ready")
                    return word_of(await self._client.ask(node, sidecars[node]))
                except (SilentNodeError, KubeError) as error:
                    why = str(error)
                    self._note_silent(node, why)
            return replace(word_of(await self._node_cache(node)), trouble=why)

    def _note_silent(self, node: str, why: str) -> None:
        now = self._clock()
        for known in [known for known, (until, _) in self._silent.items() if until <= now]:
            del self._silent[known]
        self._silent[node] = now + SILENT_SECONDS, why

    async def _node_cache(self, node: str) -> dict[str, Any]:
        """Return the status of a NodeCache; empty without a NodeCache."""
        with suppress(KubeError):
            for item in (await self._kube.list(NODE_CACHES, field_selector=f"metadata.name={node}")).items:
                return item.get("status") or {}
        return {}

    async def _addresses(self) -> dict[str, SidecarAddress]:
        found: dict[str, SidecarAddress] = {}
        for pod in (await self._kube.list(PODS, self._namespace, label_selector=SIDECARS)).items:
            where = _address(pod)
            if where is not None and (pod["spec"]["nodeName"] not in found or _is_ready(pod)):
                found[pod["spec"]["nodeName"]] = where
        return found


def _readable(items: Iterable[Mapping[str, Any]]) -> list[ReadablePod]:
    return [pod for pod in map(readable_pod, items) if pod is not None]


def _address(pod: Mapping[str, Any]) -> SidecarAddress | None:
    host, node = (pod.get("status") or {}).get("podIP"), pod["spec"].get("nodeName")
    if not host or not node or pod["metadata"].get("deletionTimestamp"):
        return None
    ports = [one for container in pod["spec"]["containers"] for one in container.get("ports") or ()]
    return SidecarAddress(host, next((one["containerPort"] for one in ports if one.get("name") == "peers"), _PORT))


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
