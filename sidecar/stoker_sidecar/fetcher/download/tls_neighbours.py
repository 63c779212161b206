"""Asks other nodes for files that they have whole, over TLS, by the certificate that all sidecars have."""

import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from stoker_api.names import PEER_NAME
from stoker_sidecar.fetcher.download.neighbours import Having, Neighbours
from stoker_sidecar.threads import in_thread

# Seconds until a node is reached, and without a byte from it; and for one answer, which comes at no less than 2 MB/s.
# None of them is a reader's to wait: who reads has what he asks for fetched from the source.
_CONNECT, _SILENT, _SECONDS, _SLOWEST = 2.0, 5.0, 10.0, 2e6
_READ = 1024 * 1024
# Connections to one node: it answers as many at a time.
_AT_ONCE = 16


class TlsNeighbours:
    """Neighbours over HTTPS, for one version of a dataset."""

    def __init__(self, session: aiohttp.ClientSession, uid: str, digest: str) -> None:
        self._session = session
        self._folder = f"/files/{uid}/{digest}"

    async def having(self, peer: str, inodes: int) -> Having | None:
        """Ask: see Neighbours."""
        try:
            async with self._get(peer, "", inodes) as answer:
                # What does not fit cannot be meant.
                if answer.status != HTTPStatus.OK or not 0 < (answer.content_length or 0) <= inodes + 1024:
                    return None
                packed = await answer.read()
                arrived = int(answer.headers["Stoker-Arrived"])
                return Having(zlib.decompressobj().decompress(packed, inodes), arrived)
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError, zlib.error):
            return None

    async def bring(self, peer: str, path: str, size: int, write: Callable[[bytes], None]) -> bool:
        """Hand over the bytes: see Neighbours."""
        came = 0
        try:
            async with self._get(peer, urlencode({"path": path}), size) as answer:
                if answer.status != HTTPStatus.OK or answer.content_length != size:
                    return False
                async for block in answer.content.iter_chunked(_READ):
                    came += len(block)
                    if came > size:
                        return False
                    await in_thread(write, block)
        except (aiohttp.ClientError, TimeoutError):
            return False
        return came == size

    @asynccontextmanager
    async def _get(self, peer: str, query: str, size: int) -> AsyncIterator[aiohttp.ClientResponse]:
        # A node is asked itself, and sends nobody elsewhere.
        url = URL(f"https://{peer}{self._folder}{'?' if query else ''}{query}", encoded=True)
        patience = aiohttp.ClientTimeout(total=_SECONDS + size / _SLOWEST, connect=_CONNECT, sock_read=_SILENT)
        async with self._session.get(url, timeout=patience, allow_redirects=False, server_hostname=PEER_NAME) as answer:
            yield answer


@asynccontextmanager
async def tls_neighbours(tls: ssl.SSLContext, uid: str, digest: str) -> AsyncIterator[Neighbours]:
    """Give the neighbours for a version while inside. ``tls``: shows this node's certificate."""
    connector = aiohttp.TCPConnector(ssl=tls, limit=0, limit_per_host=_AT_ONCE)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        yield TlsNeighbours(session, uid, digest)
