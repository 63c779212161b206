"""Builds the manifest of a version from a listing of the source, and installs manifests in their folders."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from stoker_api.datasets.dataset_source import Source
from stoker_api.datasets.dataset_status import SkippedKeys
from stoker_api.meta import format_duration
from stoker_api.node_caches.node_dataset_status import ListingResult
from stoker_sidecar.errors import InvalidSource, ServerError, SourceTooLarge
from stoker_sidecar.fetcher.ondisk.telemetry import Telemetry
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.linux.files import disk_errors, have_folders_spread, replace_text, sync_file
from stoker_sidecar.linux.libc import give_back_memory
from stoker_sidecar.store.base import OnWait, no_matter
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.layout import DatasetPaths, VersionPaths
from stoker_sidecar.version.manifest import ManifestInfo
from stoker_sidecar.version.objects import ListedObject, below_selector, selector
from stoker_sidecar.wire.fetcher_protocol import LISTED_OBJECTS


class ListedSource(Protocol):
    """A source of listings: an object store, or a wrapper that limits its pace."""

    def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of all objects, as ObjectStore does."""
        ...


Destination = Callable[[ManifestInfo], VersionPaths]  # which folder a version goes to, now that its size is known


@dataclass(frozen=True)
class ListingLimits:
    """Limits of a listing, so that it ends and does not fill the disk. The tenant chooses the endpoint.

    ``empty_pages``: the allowed number in a row. A store that skips deleted objects sends several.
    """

    objects: int = 100_000_000
    seconds: float = 12 * 3600.0
    empty_pages: int = 1000


_LIMITS = ListingLimits()
# Bytes of an object in the manifest and in its index, once all are listed: a name of 100 bytes, and its figures. The
# table of the listing is on the disk by then.
_LISTED_BYTES = 400


@dataclass
class ListedSoFar:
    """The number of objects that a listing has found, checked against the room for its manifest on ``disk``."""

    telemetry: Telemetry
    disk: CacheDisk
    objects: int = 0

    def add(self, objects: int) -> None:
        """Count a page. Raises DiskFull when the manifest would not fit."""
        self.telemetry.add(LISTED_OBJECTS, objects)
        self.objects += objects
        self.disk.check_room_for_list("the list of this source's files", self.objects * _LISTED_BYTES)


async def list_source(
    store: ListedSource,
    source: Source,
    paths: DatasetPaths,
    listing_id: str,
    destination: Destination,
    listed: Callable[[int], None],
    limits: ListingLimits = _LIMITS,
    waits: OnWait = no_matter,
) -> ListingResult:
    """List everything, put the manifest in its version's folder, remember the result below ``paths``.

    Raises SidecarError.

    ``listed`` receives each page's number of objects, ``waits`` the start and the end of an outage.
    """
    selected, below = _selectors(source)
    temporary = paths.folder / "manifest.building"
    with disk_errors("the manifest"):
        paths.folder.mkdir(parents=True, exist_ok=True)
        try:
            with ManifestBuilder(temporary, selected, below) as builder:
                await _fill(builder, _bounded(store, source.uri, limits, waits), source.uri, limits.seconds, listed)
                info = await in_thread(builder.finish, source.uri)
        finally:
            await in_thread(give_back_memory)
        await in_thread(install_manifest, temporary, destination(info))
        result = _result(listing_id, info)
        replace_text(paths.listing, json.dumps(result.wire()))
    return result


def install_manifest(temporary: Path, version: VersionPaths) -> None:
    """Move a finished manifest into its version's folder; one that is there already is the same.

    Blocks. Raises OSError.
    """
    version.folder.parent.mkdir(parents=True, exist_ok=True)
    have_folders_spread(version.folder.parent)  # place the new folder away from recent deletions
    version.folder.mkdir(exist_ok=True)
    if version.manifest.exists():
        temporary.unlink()
        return
    arrived = version.manifest.with_suffix(".new")
    shutil.move(temporary, arrived)  # possibly from another disk
    sync_file(arrived)
    arrived.rename(version.manifest)


async def _fill(
    builder: ManifestBuilder,
    pages: AsyncIterator[Sequence[ListedObject]],
    uri: str,
    seconds: float,
    listed: Callable[[int], None],
) -> None:
    try:
        async with asyncio.timeout(seconds):
            async for page in pages:
                await in_thread(builder.add, page)
                listed(len(page))
    except TimeoutError as error:
        raise SourceTooLarge(
            f"{uri} could not be listed within {format_duration(seconds)}: name a smaller part of it"
        ) from error


async def _bounded(
    store: ListedSource, uri: str, limits: ListingLimits, waits: OnWait
) -> AsyncIterator[Sequence[ListedObject]]:
    """Yield the pages of a listing. Raises SourceTooLarge, and ServerError for a listing without progress."""
    seen = empty = 0
    async for page in store.list(waits):
        seen += len(page)
        empty = 0 if page else empty + 1
        if seen > limits.objects:
            raise SourceTooLarge(f"{uri} has more than {limits.objects:,} objects: name a smaller part of it")
        if empty > limits.empty_pages:
            raise ServerError(
                f"{uri} is listed by empty pages, {empty:,} of them: check source.endpoint", temporary=False
            )
        yield page


def _selectors(source: Source) -> tuple[Callable[[str], bool], Callable[[str], bool]]:
    """Return the tests for paths, and for folders that cannot be listed."""
    try:
        return selector(source.include, source.exclude), below_selector(source.include, source.exclude)
    except ValueError as error:
        raise InvalidSource(str(error)) from error


def _result(listing_id: str, info: ManifestInfo) -> ListingResult:
    skipped = tuple(SkippedKeys(reason=item.reason, count=item.count, example=item.example) for item in info.skipped)
    finished = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ListingResult(
        id=listing_id, version=info.digest, files=info.files, bytes=info.bytes, skipped=skipped, finished_at=finished
    )
