"""Fetches a manifest from another node's sidecar, and takes it only when its content is the version asked for."""

import random
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from stoker_sidecar.errors import ManifestInvalid, ManifestUnavailable
from stoker_sidecar.fetcher.listing import Destination, install_manifest
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.builder import verify
from stoker_sidecar.version.layout import DatasetPaths

# Seconds without a byte from the other node; it sends from its disk.
_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_read=15)
_READ_SIZE = 256 * 1024


async def fetch_manifest(urls: Sequence[str], paths: DatasetPaths, digest: str, destination: Destination) -> None:
    """Try the nodes in random order, so that none serves all others. Raises ManifestUnavailable with what each said.

    Downloads below ``paths``, then moves the file to the folder of its version.
    """
    if not urls:
        raise ManifestUnavailable(f"no node is known to have the manifest of version {digest[:12]} yet")
    temporary = paths.folder / f"manifest.{digest[:12]}.fetching"
    with disk_errors("the manifest"):
        paths.folder.mkdir(parents=True, exist_ok=True)
    said: list[str] = []
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        for url in random.sample(urls, len(urls)):
            try:
                await _download(session, url, temporary)
                info = await in_thread(verify, temporary, digest)
            except (aiohttp.ClientError, TimeoutError, ManifestInvalid) as error:
                said.append(f"{url}: {error or type(error).__name__}")
            else:
                with disk_errors("the manifest"):
                    return await in_thread(install_manifest, temporary, destination(info))
    temporary.unlink(missing_ok=True)
    raise ManifestUnavailable(f"no node gave the manifest of version {digest[:12]}: {'; '.join(said)}")


async def _download(session: aiohttp.ClientSession, url: str, target: Path) -> None:
    async with session.get(url) as answer:
        answer.raise_for_status()
        with disk_errors("the manifest"), target.open("wb") as file:
            async for piece in answer.content.iter_chunked(_READ_SIZE):
                file.write(piece)
