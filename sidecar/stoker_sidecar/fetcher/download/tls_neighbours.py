"""Asks other nodes for files and pieces that they have, over TLS, by the certificate that all sidecars have."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from stoker_api.names import PEER_NAME
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Give, Having, Neighbours
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.piece_maps import MOST_PACKED, unpack_maps
from stoker_sidecar.wire.small_files import READER, SIZES, TOGETHER, parse_together, sizes_of
from stoker_sidecar.wire.tls_sessions import asked

# Bytes a second at which an answer comes at least.
_SLOWEST = 2e6
# Written at a time; or what came in so many seconds, where others wait for it.
_READ, _SOON = 1024 * 1024, 0.05
# What is read ahead of the disk, of each answer.
_BUFFER = 512 * 1024
# Connections to one node: it gives as much at a time, and one waits for what it has next.
_AT_ONCE = 16 + 1
# What a node says in place of bytes.
_INSTEAD: dict[int, Came] = {HTTPStatus.SERVICE_UNAVAILABLE: Came.BUSY, HTTPStatus.NOT_FOUND: Came.ABSENT}


class Waits(NamedTuple):
    """Seconds until a node is reached, without a byte from it, and for one answer beside what its bytes take.

    ``known``: without a byte of what a node has, which it answers at once; ``news``: of what it has that is new, which
    it answers after 2 s at the latest. Both are less than for which one that fell silent is waited for: who did not
    answer once is asked again before.

    None of them is a reader's to wait: what does not come at once is fetched from the source for who reads.
    """

    connect: float = 2.0
    silent: float = 5.0
    answer: float = 10.0
    known: float = 2.0
    news: float = 3.0


_WAITS = Waits()


class TlsNeighbours:
    """Neighbours over HTTPS, for one version of a dataset."""

    def __init__(self, session: aiohttp.ClientSession, uid: str, digest: str, waits: Waits = _WAITS) -> None:
        self._session = session
        self._waits = waits
        self._folder = f"/files/{uid}/{digest}"

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        """Ask: see Neighbours."""
        try:
            query, silent = (f"after={after}", self._waits.news) if after >= 0 else ("", self._waits.known)
            async with self._get(peer, query, inodes, silent) as answer:
                maps, most = int(answer.headers.get("Stoker-Pieces", "0")), inodes + 1024
                # What does not fit cannot be meant.
                fits = 0 <= maps <= MOST_PACKED and 0 < (answer.content_length or 0) - maps <= most
                if answer.status != HTTPStatus.OK or not fits:
                    return None
                packed = await answer.read()
                arrived, end = int(answer.headers["Stoker-Arrived"]), len(packed) - maps
                number = int(answer.headers.get("Stoker-Number", "-1")[:18])  # of earlier releases there is none
                files = zlib.decompressobj().decompress(packed[:end], inodes)
                pieces = unpack_maps(packed[end:]) if maps else {}
                together = parse_together(answer.headers.get(TOGETHER, ""))
                return Having(files, arrived, pieces, answer.headers.get("Stoker-Choice", ""), number, together)
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError, zlib.error):
            return None

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        """Hand over the bytes: see Neighbours."""
        came = 0
        try:
            async with self._get(peer, _query(ask), ask.length, self._waits.silent) as answer:
                if answer.status in _INSTEAD:
                    return _INSTEAD[answer.status]
                if answer.status != HTTPStatus.OK or answer.content_length != ask.length:
                    return Came.NOTHING
                gathered, written = bytearray(), monotonic()
                async for block in answer.content.iter_any():
                    came += len(block)
                    if came > ask.length:
                        return Came.NOTHING
                    gathered += block
                    late = ask.passing and monotonic() - written >= _SOON
                    if late or len(gathered) >= _READ or came == ask.length:  # a thread for each 16 KiB takes as long
                        await in_thread(write, bytes(gathered))
                        gathered.clear()
                        written = monotonic()
        except (aiohttp.ClientError, TimeoutError):
            return Came.NOTHING
        return Came.WHOLE if came == ask.length else Came.NOTHING

    async def bring_files(self, peer: str, asks: Sequence[Ask], give: Give) -> Came:
        """Hand over the files: see Neighbours. What is not as long as it must be ends it."""
        query = urlencode([("path", ask.path) for ask in asks] + [("together", "")])
        try:
            async with self._get(peer, query, sum(ask.length for ask in asks), self._waits.silent) as answer:
                if answer.status in _INSTEAD:
                    return _INSTEAD[answer.status]
                sizes = sizes_of(answer.headers.get(SIZES, ""), [ask.length for ask in asks])
                if answer.status != HTTPStatus.OK or sizes is None or answer.content_length != sum(filter(None, sizes)):
                    return Came.NOTHING
                for place, size in enumerate(sizes):
                    give(place, None if size is None else await answer.content.readexactly(size))
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError):
            pass
        return Came.NOTHING

    @asynccontextmanager
    async def _get(self, peer: str, query: str, size: int, silent: float) -> AsyncIterator[aiohttp.ClientResponse]:
        # A node is asked itself, and sends nobody elsewhere.
        url = URL(f"https://{peer}{self._folder}{'?' if query else ''}{query}", encoded=True)
        total = self._waits.answer + size / _SLOWEST
        patience = aiohttp.ClientTimeout(total=total, connect=self._waits.connect, sock_read=silent)
        asked.set(peer)
        async with self._session.get(url, timeout=patience, allow_redirects=False, server_hostname=PEER_NAME) as answer:
            yield answer


def _query(ask: Ask) -> str:
    """Ask for a whole file by its path alone, as earlier releases know it."""
    if (ask.offset, ask.length) == (0, ask.size):
        return urlencode({"path": ask.path} | ({READER: ""} if ask.reader else {}))
    span = {"offset": ask.offset, "length": ask.length, "size": ask.size}
    return urlencode({"path": ask.path, "part": ask.part} | span)


@asynccontextmanager
async def tls_neighbours(
    tls: ssl.SSLContext, uid: str, digest: str, waits: Waits = _WAITS
) -> AsyncIterator[Neighbours]:
    """Give the neighbours for a version while inside. ``tls``: shows this node's certificate."""
    connector = aiohttp.TCPConnector(ssl=tls, limit=0, limit_per_host=_AT_ONCE)
    session = aiohttp.ClientSession(connector=connector, auto_decompress=False, read_bufsize=_BUFFER)
    async with session:
        yield TlsNeighbours(session, uid, digest, waits)
