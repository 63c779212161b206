"""Finds what `warm.paths` names in an open version, while files of it may come and go."""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing

from stoker_api.meta import shortened
from stoker_api.warm_list import paths_of_list
from stoker_api.warm_paths import WarmPathsStatus, list_named, named_unmatched, paths_digest
from stoker_sidecar.errors import PathsTakeTooLong, SidecarError, WarmListInvalid
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.core.chosen_files import ChosenFiles
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.version.path_selection import PathSelection, select_listed, selected_bytes

# Seconds of searching names. A million files and a hundred patterns take less; what takes longer would hold up others.
_MOST_SECONDS = 60.0
_MOST_NAMED = 80  # characters of the name of a list
_READABLE = bytes(int(state in (State.HERE, State.PACKED)) for state in range(256))
_MISSING = bytes(int(state == State.MISSING) for state in range(256))


async def choose(
    version: CachedVersion,
    paths: tuple[str, ...],
    listed: Callable[[str], Awaitable[bytes]],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Have a version know which of its files are warmed; without ``paths``, all are. Done before: nothing is.

    ``listed`` brings what is in the list of this name, where one stands in place of paths. Raises what it raises,
    PathsTakeTooLong, WarmListInvalid, ManifestInvalid and CacheDiskFailed.
    """
    if version.chosen.are_of(paths_digest(paths)):
        return
    if not paths:
        version.chosen = ChosenFiles()
        return
    if version.chosen.gave_up == paths_digest(paths):
        raise _refusal(paths, version.chosen.why)
    try:
        await _search(version, paths, listed, clock)
    except (PathsTakeTooLong, WarmListInvalid) as error:
        version.chosen.gave_up, version.chosen.why = paths_digest(paths), error.message
        raise _refusal(paths, error.message) from error


def _refusal(paths: tuple[str, ...], why: str) -> SidecarError:
    """Return the error that is about these paths, or about the list that stands for them."""
    if name := list_named(paths):
        return WarmListInvalid(f"warm.list {shortened(name, _MOST_NAMED)!r}: {why}")
    return PathsTakeTooLong(f"warm.paths {why}")


async def _search(
    version: CachedVersion,
    paths: tuple[str, ...],
    listed: Callable[[str], Awaitable[bytes]],
    clock: Callable[[], float],
) -> None:
    name = list_named(paths)
    wanted = _lines(await listed(name)) if name else paths
    began, deadline = _readable(version), clock() + _MOST_SECONDS
    chosen = await in_thread(_find, version, wanted, paths_digest(paths), began, lambda: clock() >= deadline)
    for ino in _differing(began, _readable(version)):  # came, or was lost, meanwhile
        if (entry := version.manifest.entry(ino)) is not None:
            chosen.count(entry, -1 if began[ino] else 1)
    version.chosen = chosen


def is_chosen_here(version: CachedVersion, paths: tuple[str, ...]) -> bool:
    """Tell whether all that these paths name is here; False while that is not known, or there are no paths."""
    return version.chosen.are_here and version.chosen.are_of(paths_digest(paths))


def left_to_warm(version: CachedVersion, state: State) -> bool:
    """Tell whether a file of those that are warmed is in this state."""
    selection = version.chosen.selection
    return version.count(state) > 0 if selection is None else version.are(state, selection.marks)


def last_to_warm(version: CachedVersion) -> int:
    """Return the last inode of those that are warmed and missing; -1 when there is none."""
    missing = bytes(version.states.translate(_MISSING))
    return (missing if (selection := version.chosen.selection) is None else _both(selection, missing)).rfind(1)


def paths_status(version: CachedVersion) -> WarmPathsStatus | None:
    """Describe how far the chosen files are; None where all are."""
    chosen, selection = version.chosen, version.chosen.selection
    if selection is None:
        return None
    coming = (part for part in version.parts.values() if part.kept and selection.chooses(part.ino))
    return WarmPathsStatus(
        digest=selection.digest,
        files=selection.files,
        bytes=selection.total_bytes,
        warm_files=chosen.here_files,
        warm_bytes=chosen.here_bytes + sum(part.bytes_here for part in coming),
        unmatched=selection.unmatched_count,
        unmatched_paths=named_unmatched(selection.unmatched),
    )


def _lines(content: bytes) -> Iterator[str]:
    """Yield the paths of a list. Raises WarmListInvalid while it goes on."""
    try:
        yield from paths_of_list(content)
    except ValueError as error:
        raise WarmListInvalid(str(error)) from error


def _find(
    version: CachedVersion, paths: Iterable[str], digest: str, readable: bytes, too_long: Callable[[], bool]
) -> ChosenFiles:
    # Its own connection: the version's belongs to the event loop's thread.
    with closing(Manifest.open(version.paths.manifest)) as manifest:
        selection = select_listed(manifest, paths, digest, too_long)
        here = _both(selection, readable)
        return ChosenFiles(selection, here.count(1), selected_bytes(manifest, here))


def _both(selection: PathSelection, marks: bytes) -> bytes:
    return (int.from_bytes(selection.marks) & int.from_bytes(marks)).to_bytes(len(marks))


def _readable(version: CachedVersion) -> bytes:
    """Return a byte an inode: 1 where the file can be read without the source."""
    return bytes(version.states.translate(_READABLE))


def _differing(one: bytes, other: bytes) -> list[int]:
    marks = (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))
    found, ino = [], marks.find(1)
    while ino >= 0:
        found.append(ino)
        ino = marks.find(1, ino + 1)
    return found
