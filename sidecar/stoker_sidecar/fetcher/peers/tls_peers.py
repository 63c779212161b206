"""Asks other nodes for files and pieces that they have, over TLS: each proves by its certificate which node it is."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from stoker_api.node_caches.peers import peer_host
from stoker_sidecar.fetcher.ondisk.piece_maps import MOST_PACKED, unpack_maps
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Give, Having, PeerClient
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.config.peer_tls import asked
from stoker_sidecar.wire.small_files import READER, SIZES, TOGETHER, parse_together, sizes_of

# Minimum bytes a second of an answer.
_SLOWEST = 2e6
# Bytes that are written at a time.
_READ = 1024 * 1024
# Bytes of each answer that are buffered.
_BUFFER = 512 * 1024
# Connections to one node: its limit of transfers, and one for inventory queries.
_AT_ONCE = 16 + 1
# Status codes that a node sends instead of bytes.
_INSTEAD: dict[int, Came] = {HTTPStatus.SERVICE_UNAVAILABLE: Came.BUSY, HTTPStatus.NOT_FOUND: Came.ABSENT}


class Waits(NamedTuple):
    """Timeouts in seconds: to connect, to the next byte, and for one answer on top of the time of its bytes.

    ``known``: without a byte of an inventory that the node sends at once. ``news``: of an inventory that it sends when
    it changes, or after 2 s. Both are shorter than the time after which a node counts as silent, so that a lost answer
    is asked for again before that.

    These are not timeouts of readers. If a file does not come at once, the reader gets it from the source.
    """

    connect: float = 2.0
    silent: float = 5.0
    answer: float = 10.0
    known: float = 2.0
    news: float = 3.0


_WAITS = Waits()


class TlsPeerClient:
    """A client of peers over HTTPS, for one version of a dataset. ``names``: the trusted nodes, by host:port."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        uid: str,
        digest: str,
        names: Mapping[str, str],
        waits: Waits = _WAITS,
    ) -> None:
        self._session = session
        self._waits = waits
        self._names = names
        self._folder = f"/files/{uid}/{digest}"

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        """Ask; see PeerClient."""
        try:
            query, silent = (f"after={after}", self._waits.news) if after >= 0 else ("", self._waits.known)
            async with self._get(peer, query, inodes, silent) as answer:
                maps, most = int(answer.headers.get("Stoker-Pieces", "0")), inodes + 1024
                # Sizes beyond the limits are invalid.
                fits = 0 <= maps <= MOST_PACKED and 0 < (answer.content_length or 0) - maps <= most
                if answer.status != HTTPStatus.OK or not fits:
                    return None
                packed = await answer.read()
                arrived, end = int(answer.headers["Stoker-Arrived"]), len(packed) - maps
                number = int(answer.headers.get("Stoker-Number", "-1")[:18])  # earlier releases send none
                files = zlib.decompressobj().decompress(packed[:end], inodes)
                pieces = unpack_maps(packed[end:]) if maps else {}
                together = parse_together(answer.headers.get(TOGETHER, ""))
                return Having(files, arrived, pieces, answer.headers.get("Stoker-Choice", ""), number, together)
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError, zlib.error):
            return None

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        """Transfer the bytes; see PeerClient."""
        came = 0
        try:
            async with self._get(peer, _query(ask), ask.length, self._waits.silent) as answer:
                if answer.status in _INSTEAD:
                    return _INSTEAD[answer.status]
                if answer.status != HTTPStatus.OK or answer.content_length != ask.length:
                    return Came.NOTHING
                gathered = bytearray()
                async for block in answer.content.iter_any():
                    came += len(block)
                    if came > ask.length:
                        return Came.NOTHING
                    gathered += block
                    if len(gathered) >= _READ or came == ask.length:  # a thread for each 16 KiB takes as long
                        await in_thread(write, bytes(gathered))
                        gathered.clear()
        except (aiohttp.ClientError, TimeoutError):
            return Came.NOTHING
        return Came.WHOLE if came == ask.length else Came.NOTHING

    async def bring_files(self, peer: str, asks: Sequence[Ask], give: Give) -> Came:
        """Transfer the files; see PeerClient. A wrong length ends the transfer."""
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
        # A node answers itself and never redirects.
        url = URL(f"https://{peer}{self._folder}{'?' if query else ''}{query}", encoded=True)
        total = self._waits.answer + size / _SLOWEST
        patience = aiohttp.ClientTimeout(total=total, connect=self._waits.connect, sock_read=silent)
        asked.set(peer)
        host = peer_host(self._names.get(peer, ""))
        async with self._session.get(url, timeout=patience, allow_redirects=False, server_hostname=host) as answer:
            yield answer


def _query(ask: Ask) -> str:
    """Ask for a whole file by its path alone, as earlier releases know it."""
    if (ask.offset, ask.length) == (0, ask.size):
        return urlencode({"path": ask.path} | ({READER: ""} if ask.reader else {}))
    span = {"offset": ask.offset, "length": ask.length, "size": ask.size}
    return urlencode({"path": ask.path, "part": ask.part} | span)


@asynccontextmanager
async def tls_peer_client(
    tls: ssl.SSLContext, uid: str, digest: str, names: Mapping[str, str], waits: Waits = _WAITS
) -> AsyncIterator[PeerClient]:
    """Yield a client of the peers with a version. ``tls``: shows its certificate. ``names``: by host:port."""
    connector = aiohttp.TCPConnector(ssl=tls, limit=0, limit_per_host=_AT_ONCE)
    session = aiohttp.ClientSession(connector=connector, auto_decompress=False, read_bufsize=_BUFFER)
    async with session:
        yield TlsPeerClient(session, uid, digest, names, waits)
