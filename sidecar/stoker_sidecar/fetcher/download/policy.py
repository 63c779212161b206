"""One download of a version, and the pieces that are fetched ahead of readers."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.parts import CHUNK, PartFile, chunk_count, is_whole
from stoker_sidecar.fetcher.sources.core.readahead import FilesAhead, Readahead, Scatter, weight
from stoker_sidecar.fetcher.sources.pipeline import Slot
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_hints import FileKnobs


@dataclass(eq=False)
class Download:
    """A running download of one piece.

    ``ahead``: its bytes, if no reader had asked for it; ``guess``: its weight to the prefetcher.

    ``reserved``: bytes of a small file that is to stay; ``reached``: offset up to which its bytes are readable, in the
    part ``into``. ``is_stuck``: its last attempt found the disk full, and no new attempt has begun.
    """

    slot: Slot
    ahead: int = 0
    guess: int = 0
    reserved: int = 0
    reached: int = 0
    into: PartFile | None = None
    is_stuck: bool = False
    task: "asyncio.Task[None]" = field(init=False)
    moved: asyncio.Event = field(default_factory=asyncio.Event)


Action = Callable[[Download], Coroutine[None, None, None]]


# Inode and number of the chunk. All requests for a piece share one download.
DownloadKey = tuple[int, int]


class Guess(NamedTuple):
    """A piece to start before a reader requests it.

    ``weight``: its weight in ``Scatter``, reported again when it lands; 0: none.
    """

    entry: Entry
    chunk: int
    weight: int = 0


def chunks_ahead(knobs: FileKnobs, budget: int) -> int | None:
    """Return the number of chunks ahead of a reader of a large file; None: its reads decide. Pure.

    ``budget``: bytes ahead of all readers of the node, and the limit of each.
    """
    wanted = -(-knobs.ahead_bytes // CHUNK) if knobs.ahead_bytes is not None else None
    if knobs.streams is not None:  # the reader's own request is one of them
        wanted = knobs.streams - 1 if wanted is None else min(wanted, knobs.streams - 1)
    return None if wanted is None else min(wanted, budget // CHUNK)


def most_chunks(budget: int) -> int:
    """Return the usual limit of a window in a large file. Pure. ``budget``: bytes ahead of all readers of the node.

    Half of the budget, so that a second reader's readahead is not pushed out at once.
    """
    return max(min(1, budget), budget // 2 // CHUNK)


@dataclass
class Prefetcher:
    """Follows the readers of one version.

    ``budget``: bytes of the node's readahead that may be on their way.
    """

    version: CachedVersion
    readahead: Readahead
    budget: int
    _scatter: Scatter = field(init=False)

    def __post_init__(self) -> None:
        info = self.version.manifest.info
        self._scatter = Scatter(weight(info.bytes, info.files), self.budget // 2)

    def missed(
        self, entry: Entry, chunks: range, on_their_way: Mapping[DownloadKey, Download], knobs: FileKnobs, *, late: bool
    ) -> Iterator[Guess]:
        """Yield pieces to start after a reader requested these pieces of an incomplete file.

        ``late``: the first one was on its way. Start each piece before you request the next one. A weighted piece that
        may not stay ends the iteration.
        """
        if not is_whole(entry.size):
            yield from self._chunks(entry, self.readahead.chunks(entry.ino, chunks, chunks_ahead(knobs, self.budget)))
        elif knobs.ahead_files == 0:
            return
        elif files := self.readahead.files(entry.parent, entry.ino, late=late, ahead=knobs.ahead_files):
            yield from self._following(entry, files, on_their_way)
        else:
            yield from self._scattered(entry, on_their_way)

    def landed(self, weight: int, *, here: bool) -> None:
        """Note the end of a weighted guess, and whether it succeeded."""
        self._scatter.landed(weight, here=here)

    def _chunks(self, entry: Entry, ahead: range) -> Iterator[Guess]:
        """Yield these chunks of a large file. Those beyond its end are of the next large files in its folder."""
        count = chunk_count(entry.size)
        yield from (Guess(entry, chunk) for chunk in ahead if chunk < count)
        following, left = self._next_large(entry), ahead.stop - max(ahead.start, count)
        while left > 0 and following is not None:
            left = self.readahead.continues(entry.ino, following.ino, left)
            count = chunk_count(following.size)
            yield from (Guess(following, chunk) for chunk in range(min(left, count)))
            following, left = self._next_large(following), left - count

    def _next_large(self, entry: Entry) -> Entry | None:
        ino = self.version.states.missing(entry.ino)
        following = self.version.manifest.entry(ino) if ino > 0 else None
        is_next = following is not None and following.parent == entry.parent and not is_whole(following.size)
        return following if is_next else None

    def _following(
        self, entry: Entry, files: FilesAhead, on_their_way: Mapping[DownloadKey, Download]
    ) -> Iterator[Guess]:
        """Yield the next missing small files, in the order of their names.

        Files beyond the budget would push out files that the reader needs sooner. So half of it may be on its way.
        """
        if not files.number:
            return
        ino, size = files.after, sum(download.ahead for download in on_their_way.values())
        for _ in range(files.number):
            following = self.version.manifest.entry(ino) if (ino := self.version.states.missing(ino)) > 0 else None
            if following is None or not is_whole(following.size):
                return
            if (ino, 0) in on_their_way:
                continue
            if size and size + following.size > self.budget // 2:
                return
            other = following.parent
            if other != entry.parent and not self.readahead.crosses(entry.parent, other, ino):
                return
            size += following.size
            yield Guess(following, 0)
            self.readahead.fetched(other, ino)

    def _scattered(self, entry: Entry, on_their_way: Mapping[DownloadKey, Download]) -> Iterator[Guess]:
        """Yield other missing small files of the same folder, as many as its readers' misses warrant."""
        version = self.version
        size = version.manifest.info.bytes - version.here_bytes - version.reserved_bytes
        self._scatter.missed(weight(entry.size), weight(size, version.manifest.info.files - version.here_files))
        for before in (entry.ino, entry.parent):  # behind it, then from the folder's start: inodes are depth first
            ino = before
            while (other := self._next(ino, entry.parent, on_their_way)) and weight(other.size) <= self._scatter.room:
                yield Guess(other, 0, weight(other.size))
                self._scatter.started(weight(other.size))
                ino = other.ino

    def _next(self, ino: int, folder: int, on_their_way: Mapping[DownloadKey, Download]) -> Entry | None:
        """Return the next small file of the folder behind ``ino`` that is missing and not on its way."""
        while (ino := self.version.states.missing(ino)) > 0 and (ino, 0) in on_their_way:
            pass
        entry = self.version.manifest.entry(ino) if ino > 0 else None
        return entry if entry is not None and entry.parent == folder and is_whole(entry.size) else None
