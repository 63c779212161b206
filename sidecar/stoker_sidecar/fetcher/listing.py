"""Lists a source into a manifest."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from stoker_api.dataset import SkippedKeys, Source
from stoker_api.nodecache import ListingResult
from stoker_sidecar.errors import InvalidSource
from stoker_sidecar.linux.files import disk_errors, replace_text, sync_file
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.layout import DatasetPaths, VersionPaths
from stoker_sidecar.version.manifest import ManifestInfo
from stoker_sidecar.version.patterns import selector

Destination = Callable[[ManifestInfo], VersionPaths]  # which folder a version goes to, now that its size is known


async def list_source(
    store: ObjectStore,
    source: Source,
    paths: DatasetPaths,
    listing_id: str,
    destination: Destination,
    listed: Callable[[int], None],
) -> ListingResult:
    """List everything, put the manifest in its version's folder, remember the result below ``paths``. Raises SidecarError.

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
    """Move a finished manifest into its version's folder; one that is there already is the same. Blocks. Raises OSError."""
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
