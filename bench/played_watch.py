"""A watch of NodeCaches as the operator reads it, from JSON; only the API server is played."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Final, cast

from bench.led_cluster import LedCluster
from stoker_kube.api import Kube, Listing, Object
from stoker_kube.informer import Informer
from stoker_kube.lines import LineSplitter
from stoker_kube.resources import NODE_CACHES
from stoker_kube.watch import watch
from stoker_operator.core.node_cache_reader import NodeCacheReader
from stoker_operator.work_turns import WORK

_FIRST_VERSION = 1_000_000  # a resourceVersion that is newer than all before
_VERSION, _BYTES = "@version@", -1  # what is another in each report


class PlayedWatch:
    """Brings the NodeCaches of some nodes one after the other, each time with other bytes of one of their Datasets."""

    def __init__(self, cluster: LedCluster, nodes: Sequence[str]) -> None:
        self._state: Final = cluster.state
        self._lines: Final = [_line_of(cluster.wire(node), number) for number, node in enumerate(nodes)]
        self._coming: Final[asyncio.Queue[bytes]] = asyncio.Queue()

    async def pages(self, *_: object) -> AsyncIterator[Listing]:
        """List nothing: what is there is known."""
        yield Listing([], str(_FIRST_VERSION))

    async def stream(self, *_: object) -> AsyncIterator[Object]:
        """Read what comes, as the client of the API server does."""
        lines = LineSplitter()
        while True:
            for line in lines.feed(await self._coming.get()):
                yield json.loads(line)

    async def read(self) -> None:
        """Follow the watch as the operator does, until cancelled."""
        events = watch(cast("Kube", self), NODE_CACHES)
        await Informer(events, NodeCacheReader().view, self._state.node_caches.feed, WORK.one).run()

    async def report(self, a_second: float) -> None:
        """Have nodes report by the clock, until cancelled."""
        clock = asyncio.get_running_loop().time
        began, number = clock(), 0
        while True:
            line = self._lines[number % len(self._lines)]
            number += 1
            said = line.replace(b"@version@", b"%d" % (_FIRST_VERSION + number))
            self._coming.put_nowait(said.replace(b'"warmBytes": -1', b'"warmBytes": %d' % ((1 << 30) - number % 1000)))
            await asyncio.sleep(max(0.0, began + number / a_second - clock()))


def _line_of(raw: Object, number: int) -> bytes:
    """Write a node's NodeCache with gaps: of a Dataset on all nodes, or of its last one, which few have."""
    row = raw["status"]["datasets"][0 if number % 2 else -1]
    row["warmBytes"] = _BYTES
    event = {"type": "MODIFIED", "object": raw | {"metadata": raw["metadata"] | {"resourceVersion": _VERSION}}}
    return json.dumps(event).encode() + b"\n"
