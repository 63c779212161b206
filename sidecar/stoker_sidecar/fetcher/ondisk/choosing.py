"""Finds the files of `warm.paths` in an open version, while its files may arrive or leave, and orders them."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice

from stoker_api.datasets.warm_list import paths_of_list
from stoker_api.datasets.warm_paths import WarmPathsStatus, list_named, named_unmatched, paths_digest
from stoker_api.meta import shortened
from stoker_sidecar.errors import PathsTakeTooLong, SidecarError, WarmListInvalid
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.path_selection import ChosenFiles, PathSelection, select_listed, selected_bytes
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry, Manifest

# Seconds of a name search. A million files and a hundred patterns take less. A longer search would delay other
# datasets.
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
    """Set the files of a version that are warmed; without ``paths``, all are. A repeated call does nothing.

    ``listed`` returns the content of the list of this name, if a list replaces the paths. Raises its errors,
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
    for ino in _differing(began, _readable(version)):  # files that arrived or were lost during the search
        if (entry := version.manifest.entry(ino)) is not None:
            chosen.count(entry, -1 if began[ino] else 1)
    version.chosen = chosen


def is_chosen_here(version: CachedVersion, paths: tuple[str, ...]) -> bool:
    """Return True if all files of these paths are here. False while that is unknown, or without paths."""
    return version.chosen.are_here and version.chosen.are_of(paths_digest(paths))


def left_to_warm(version: CachedVersion, state: State) -> bool:
    """Return True if one of the files to warm is in this state."""
    selection = version.chosen.selection
    return version.states.count(state) > 0 if selection is None else version.states.are(state, selection.marks)


def last_to_warm(version: CachedVersion) -> int:
    """Return the last missing inode among the files to warm; -1 if none is missing."""
    missing = bytes(version.states.translate(_MISSING))
    return (missing if (selection := version.chosen.selection) is None else _both(selection, missing)).rfind(1)


def paths_status(version: CachedVersion) -> WarmPathsStatus | None:
    """Describe the progress of the chosen files. None if all files are warmed."""
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
    """Yield the paths of a list. Raises WarmListInvalid during iteration."""
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


class PeekableOrder:
    """A look-ahead iterator over an order of entries. It reads entries only when they are needed.

    ``missing``: returns True if a file is still missing, since it may arrive after ``following`` returned it.
    """

    def __init__(self, order: Iterator[Entry], missing: Callable[[int], bool]) -> None:
        self._order = order
        self._missing = missing
        self._seen: deque[Entry] = deque()

    def __iter__(self) -> Iterator[Entry]:
        """Return itself."""
        return self

    def __next__(self) -> Entry:
        """Return the next entry. Raises StopIteration."""
        while self._seen:
            if self._missing((entry := self._seen.popleft()).ino):
                return entry
        return next(self._order)

    def following(self, most: int) -> list[Entry]:
        """Return the next entries, at most this number. They stay."""
        return list(islice(self._upcoming(), most))

    def _upcoming(self) -> Iterator[Entry]:
        yield from list(self._seen)
        for entry in self._order:
            self._seen.append(entry)
            yield entry


_NEAR = 16  # inodes: the next one of a folder's, but for its folders and for files that are here
_MISSING_ALONE = bytes(int(state == State.MISSING) for state in range(256))


class ChosenOrder:
    """An AccessOrder: the paths in their given order, and the files of each in the order of the manifest.

    ``marks``: a byte an inode, 1 for the files to include; None: all.
    """

    def __init__(self, version: CachedVersion, selection: PathSelection, marks: bytes | None = None) -> None:
        self._version = version
        self._selection = selection
        self._marks = marks

    def __iter__(self) -> Iterator[Entry]:
        """Files that are here are passed over by the hundred thousand."""
        version = self._version
        wanted = bytes(version.states.translate(_MISSING_ALONE))
        if self._marks is not None:
            wanted = (int.from_bytes(wanted) & int.from_bytes(self._marks)).to_bytes(len(wanted))
        yield from entries_of(version.manifest, filter(version.states.is_missing, self._selection.in_order(wanted)))


def entries_of(manifest: Manifest, inos: Iterable[int]) -> Iterator[Entry]:
    """Yield the entries of inodes in order.

    Successive rows are read a page at a time. In an unordered list, a page for each file would cost more than the file.
    Raises KeyError for an unknown inode.
    """
    page: dict[int, Entry] = {}
    before = 0
    for ino in inos:
        if ino not in page:
            page = _rows(manifest, ino, page=0 <= ino - before <= _NEAR)
        before = ino
        yield page[ino]


def _rows(manifest: Manifest, ino: int, *, page: bool) -> dict[int, Entry]:
    rows = manifest.page(ino - 1) if page else filter(None, (manifest.entry(ino),))
    return {entry.ino: entry for entry in rows}
