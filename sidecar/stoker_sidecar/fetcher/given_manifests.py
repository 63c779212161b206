"""The manifest of a version as another node gives it, which has it already."""

import random
import ssl
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

import aiohttp

from stoker_api.names import PEER_NAME
from stoker_sidecar.errors import ManifestInvalid, ManifestUnavailable
from stoker_sidecar.fetcher.manifests import Destination, install_manifest
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.linux.libc import give_back_memory
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import DatasetPaths
from stoker_sidecar.version.received import rebuild

# Seconds without a byte from the other node; it sends from its disk.
_TIMEOUT = aiohttp.ClientTimeout(total=3600, connect=5, sock_read=15)
_READ_SIZE = 256 * 1024
# Bytes of a manifest that another node may send: one of ListingLimits.objects has some 12 GB.
MOST_MANIFEST = 16 * 2**30


async def fetch_manifest(
    urls: Sequence[str],
    paths: DatasetPaths,
    digest: str,
    destination: Destination,
    *,
    tls: ssl.SSLContext | None = None,
    most: int = MOST_MANIFEST,
) -> None:
    """Try the nodes in random order, so that none serves all others. Raises ManifestUnavailable with what each said.

    ``tls``: by what the nodes and this one know each other.
    What came is read as rows, below ``paths``; the manifest that is made of them is moved to the folder of its version.
    """
    if not urls:
        raise ManifestUnavailable(f"no node is known to have the manifest of version {digest[:12]} yet")
    received, built = (paths.folder / f"manifest.{digest[:12]}.{name}" for name in ("fetching", "rebuilding"))
    with disk_errors("the manifest"):
        paths.folder.mkdir(parents=True, exist_ok=True)
    said: list[str] = []
    try:
        connector = aiohttp.TCPConnector(ssl=tls or True)
        async with aiohttp.ClientSession(timeout=_TIMEOUT, connector=connector) as session:
            for url in random.sample(urls, len(urls)):
                try:
                    await _download(session, url, received, most)
                    info = await in_thread(rebuild, received, built, digest)
                except (aiohttp.ClientError, TimeoutError, ManifestInvalid, ValueError) as error:
                    said.append(f"{url}: {error or type(error).__name__}")
                else:
                    with disk_errors("the manifest"):
                        return await in_thread(install_manifest, built, destination(info))
    finally:
        received.unlink(missing_ok=True)
        built.unlink(missing_ok=True)
        await in_thread(give_back_memory)
    raise ManifestUnavailable(f"no node gave the manifest of version {digest[:12]}: {'; '.join(said)}")


async def _download(session: aiohttp.ClientSession, url: str, target: Path, most: int) -> None:
    # The address is another node's word: it is asked itself, and sends nobody elsewhere.
    async with session.get(url, allow_redirects=False, server_hostname=PEER_NAME) as answer:
        answer.raise_for_status()
        if answer.status != HTTPStatus.OK:
            raise ManifestInvalid(f"it answers {answer.status}")
        size = 0
        with disk_errors("the manifest"), target.open("wb") as file:
            async for piece in answer.content.iter_chunked(_READ_SIZE):
                size += len(piece)
                if size > most:
                    raise ManifestInvalid(f"it sends more than {most:,} bytes")
                file.write(piece)
