"""Plays the sidecars of all nodes in one process: python -m bench.simulation.player KUBECONFIG WARMING_SECONDS.

Each node has the sidecar's own StatusWriter, with its pace. One watch serves all of them, while real nodes have one
each. Commands arrive as lines of JSON on standard input, and answers go to standard output.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.simulation.played_node import DISK, Pace, PlayedNode, nonsense
from bench.simulation.shape import Temper, node_index, temper
from stoker_api.node_caches.nodecache import REPORT_SECONDS, NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_kube.api import Kube, Object
from stoker_kube.client import KubeClient
from stoker_kube.errors import KubeError
from stoker_kube.resources import NODE_CACHES
from stoker_kube.watch import EventType, watch
from stoker_sidecar.agent.kube.node_cache import StatusWriter
from stoker_sidecar.volumes.synchronization import Changes

_LOOK_SECONDS = 0.25  # seconds between two checks of changing figures
_NONSENSE_SECONDS = 5.0
_SHIFT = DISK // 50  # 2 % of the disk: more than the tolerance of a sidecar


class CountingKube:
    """The client methods that StatusWriter uses. It counts written and refused statuses."""

    def __init__(self, kube: Kube, counts: Counter[str]) -> None:
        self._kube = kube
        self._counts = counts

    async def patch(self, *arguments: Any, **options: Any) -> Object:
        """Patch, and count."""
        try:
            written = await self._kube.patch(*arguments, **options)
        except KubeError as error:
            self._counts[f"refused {error.status}"] += 1
            raise
        self._counts["written"] += 1
        return written


class Sidecars:
    """All played sidecars of the cluster."""

    def __init__(self, kube: Kube, pace: Pace) -> None:
        self._kube = kube
        self._pace = pace
        self.counts: Counter[str] = Counter()
        self._nodes: dict[str, PlayedNode] = {}
        self._changes: dict[str, Changes] = {}
        self._playing: dict[str, asyncio.Task[None]] = {}
        self._nonsense = True
        self._hasty = False  # figures are written at once, regardless of the operator's pace
        self._moved: dict[str, float] = {}  # busy nodes: the time of the last figures passed to their writers

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._move())
            async for event in watch(self._kube, NODE_CACHES):
                if event.type in (EventType.ADDED, EventType.MODIFIED):
                    self._take(event.object, tasks)
                elif event.type is EventType.DELETED:
                    self._drop(event.object["metadata"]["name"])

    def answer(self, command: Object) -> Object:
        """Run a command with node names and the nonsense flag. Return the figures."""
        now = time.monotonic()
        if command.get("nonsense") is not None:
            self._nonsense = bool(command["nonsense"])
        if command.get("hasty") is not None:
            self._hasty = bool(command["hasty"])
        for name in command.get("shift", ()):
            self._shift(name)
        lost = sum(self._lose(name, now) for name in command.get("lose", ()))
        busy = sum(node.is_busy(now) for node in self._nodes.values())
        return {"nodes": len(self._nodes), "busy": busy, "lost": lost, "counts": dict(self.counts)}

    def _take(self, raw: Object, tasks: asyncio.TaskGroup) -> None:
        name = raw["metadata"]["name"]
        if name not in self._nodes:
            self._nodes[name] = PlayedNode(name, temper(node_index(name)), self._pace)
            self._changes[name] = Changes()
            self._playing[name] = tasks.create_task(self._play(self._nodes[name], self._changes[name]), name=name)
        if self._nodes[name].generation == raw["metadata"]["generation"]:
            return  # most events are statuses from this process
        try:
            cache = NodeCache.model_validate({"metadata": raw["metadata"], "spec": raw.get("spec") or {}})
        except ValidationError:
            self.counts["unreadable plans"] += 1
            return
        if self._nodes[name].take(cache, time.monotonic()):
            self._show(name)

    def _drop(self, name: str) -> None:
        """Forget a deleted node and its disk."""
        for known in (self._nodes, self._changes, self._moved):
            known.pop(name, None)
        if (playing := self._playing.pop(name, None)) is not None:
            playing.cancel()

    async def _play(self, node: PlayedNode, changes: Changes) -> None:
        kube: Any = CountingKube(self._kube, self.counts)
        if node.temper is Temper.WRONG:
            await self._talk_nonsense(kube, node.name)

        def compute(written: NodeCacheStatus | None) -> NodeCacheStatus | None:
            return node.status(time.monotonic(), written)

        def pace() -> float:
            return REPORT_SECONDS if self._hasty else node.report_seconds

        await StatusWriter(kube, node.name, changes, compute, pace=pace).run()

    async def _talk_nonsense(self, kube: CountingKube, name: str) -> None:
        number = node_index(name)
        while True:
            if self._nonsense:
                with suppress(KubeError):
                    await kube.patch(NODE_CACHES, name, {"status": nonsense(number, name)}, subresource="status")
                number += 1
            await asyncio.sleep(_NONSENSE_SECONDS)

    async def _move(self) -> None:
        """Pass changing figures to the writers, at the same moments as a sidecar would."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for name, shown in list(self._moved.items()):
                settles = self._nodes[name].settles(last)
                if (settles is not None and settles <= now - last) or now - shown >= REPORT_SECONDS:
                    self._show(name)
            last = now

    def _show(self, name: str) -> None:
        """Let a node's writer check its figures, and again while they change."""
        self._changes[name].mark()
        if self._nodes[name].is_busy(now := time.monotonic()):
            self._moved[name] = now
        else:
            self._moved.pop(name, None)

    def _shift(self, name: str) -> None:
        if name in self._nodes:
            self._nodes[name].shift(_SHIFT)
            self._show(name)

    def _lose(self, name: str, now: float) -> bool:
        lost = name in self._nodes and self._nodes[name].lose(now)
        if lost:
            self._show(name)
        return lost


async def _serve(kubeconfig: str, pace: Pace) -> None:
    """Play until standard input ends."""
    async with await KubeClient.connect(Path(kubeconfig)) as kube:
        sidecars = Sidecars(kube, pace)
        playing = asyncio.create_task(sidecars.run())
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        commands = asyncio.create_task(_commands(lines, sidecars))
        done, rest = await asyncio.wait({playing, commands}, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for task in done:
            task.result()


async def _commands(lines: asyncio.StreamReader, sidecars: Sidecars) -> None:
    while line := await lines.readline():
        print(json.dumps(sidecars.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], Pace(warming=float(sys.argv[2]))))
