"""Fetches the list of the files to warm, before the rest of the version."""

import errno
from pathlib import Path

from stoker_api.datasets.warm_list import check_list_size
from stoker_sidecar.errors import CacheDiskFailed, WarmListInvalid
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.packed_copy import read_copy
from stoker_sidecar.wire.fetcher_protocol import ReadDone


async def list_content(fetching: Fetching, name: str) -> bytes:
    """Return the content of the list of this name. A missing list is fetched with the priority of a read.

    Raises WarmListInvalid if the version has no such list, and SidecarError if the fetch fails.
    """
    entry = _entry(fetching, name)
    if not entry.size:  # empty files are never read from the fetcher
        return b""
    for doubt in (False, True):
        place = await fetching.read(entry.ino, 0, entry.size, doubt=doubt)
        try:
            return await in_thread(_content, place, entry.size)
        except OSError as error:  # gone, or damaged: the next read sets doubt, so that the fetcher checks
            failed = error
    raise CacheDiskFailed(f"warm.list {name!r} cannot be read from the cache disk: {failed.strerror or failed}")


def _entry(fetching: Fetching, name: str) -> Entry:
    """Find the list in the version. Raises WarmListInvalid."""
    entry = fetching.version.manifest.find(name)
    if entry is None:
        raise WarmListInvalid(
            "this version has no such file: put it there, below the Dataset's folder and not left out by include and "
            "exclude, and run `stoker refresh`"
        )
    if entry.is_dir:
        raise WarmListInvalid("it is a folder: name a text file, or the folder itself in warm.paths")
    try:
        check_list_size(entry.size)
    except ValueError as error:
        raise WarmListInvalid(str(error)) from error
    return entry


def _content(place: ReadDone, size: int) -> bytes:
    """Read a whole file at the fetcher's place for it. Blocks. Raises OSError."""
    path = Path(place.file)
    found = read_copy(path, size) if place.place == "packed" else path.read_bytes()
    if len(found) != size:
        raise OSError(errno.EIO, "it has the wrong size")
    return found
