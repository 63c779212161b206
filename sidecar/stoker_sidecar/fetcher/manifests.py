"""Where the manifest of a version comes from: a listing of the source, or another node that has it already."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from stoker_api.dataset import SkippedKeys, Source
from stoker_api.nodecache import ListingResult
from stoker_sidecar.errors import InvalidSource, ManifestInvalid, ManifestUnavailable
from stoker_sidecar.linux.files import disk_errors, replace_text, sync_file
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.builder import ManifestBuilder, verify
from stoker_sidecar.version.layout import DatasetPaths, VersionPaths
from stoker_sidecar.version.manifest import ManifestInfo
from stoker_sidecar.version.objects import selector

Destination = Callable[[ManifestInfo], VersionPaths]  # which folder a version goes to, now that its size is known


async def list_source(
    store: ObjectStore,
    source: Source,
    paths: DatasetPaths,
    listing_id: str,
    destination: Destination,
    listed: Callable[[int], None],
) -> ListingResult:
    """List everything, put the manifest in its version's folder, remember the result below ``paths``.

    Raises SidecarError.

    ``listed`` is told of each page's number of objects.
    """
    selected = _selector(source)
    temporary = paths.folder / "manifest.building"
    with disk_errors("the manifest"):
        paths.folder.mkdir(parents=True, exist_ok=True)
        info = await _build(store, source.uri, selected, temporary, listed)
        await in_thread(install_manifest, temporary, destination(info))
        result = _result(listing_id, info)
        replace_text(paths.listing, json.dumps(result.wire()))
    return result


def install_manifest(temporary: Path, version: VersionPaths) -> None:
    """Move a finished manifest into its version's folder; one that is there already is the same.

    Blocks. Raises OSError.
    """
    version.folder.mkdir(parents=True, exist_ok=True)
    if version.manifest.exists():
        temporary.unlink()
        return
    arrived = version.manifest.with_suffix(".new")
    shutil.move(temporary, arrived)  # perhaps from another disk
    sync_file(arrived)
    arrived.rename(version.manifest)


async def _build(
    store: ObjectStore, uri: str, selected: Callable[[str], bool], target: Path, listed: Callable[[int], None]
) -> ManifestInfo:
    with ManifestBuilder(target, selected) as builder:
        async for page in store.list():
            await in_thread(builder.add, page)
            listed(len(page))
        return await in_thread(builder.finish, uri)


def _selector(source: Source) -> Callable[[str], bool]:
    try:
        return selector(source.include, source.exclude)
    except ValueError as error:
        raise InvalidSource(str(error)) from error


def _result(listing_id: str, info: ManifestInfo) -> ListingResult:
    skipped = tuple(SkippedKeys(reason=item.reason, count=item.count, example=item.example) for item in info.skipped)
    finished = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ListingResult(
        id=listing_id, version=info.digest, files=info.files, bytes=info.bytes, skipped=skipped, finished_at=finished
    )


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
