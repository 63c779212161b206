"""What is decided about the downloads of one version, beside their order.

What is fetched ahead of readers, who shares a download, and what makes room for a file that does not fit.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.core.readahead import MOST_FILES, Readahead, Scatter, weight
from stoker_sidecar.fetcher.download.parts import CHUNK, chunk_count, is_whole
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import FileKnobs

# Inode and number of the chunk: whoever asks for a piece under the same key shares its download.
DownloadKey = tuple[int, int]


class DownloadPolicy(Protocol):
    """The decisions for one version that benchmarks make in another way, to show what the product's are worth."""

    def key(self, ino: int, chunk: int) -> DownloadKey:
        """Return the key under which a piece is downloaded."""

    def make_room(self, size: int) -> bool:
        """Make room for a small file that a reader waits for and that does not fit; return whether it fits now."""

    def stays(self, ino: int) -> None:
        """Take note of a small file that has come and stays."""


PolicyFactory = Callable[[CachedVersion, VersionSpace], DownloadPolicy]


class KeepWhatCame:
    """The product's policy: one download a piece whoever asks, and what came first stays (ADR 7)."""

    def __init__(self, version: CachedVersion, space: VersionSpace) -> None:
        """Need nothing of the version: a policy that evicts would."""

    def key(self, ino: int, chunk: int) -> DownloadKey:
        """Return the same key for all askers of a piece."""
        return ino, chunk

    def make_room(self, size: int) -> bool:
        """Make none."""
        return False

    def stays(self, ino: int) -> None:
        """Take no note."""


class Guess(NamedTuple):
    """A piece to start before anyone asks.

    ``weight``: what it counts for, to be said again when it has landed; 0: nothing.
    """

    entry: Entry
    chunk: int
    weight: int = 0


def chunks_ahead(knobs: FileKnobs, budget: int) -> int | None:
    """Return how many chunks are to be ahead of a reader of a large file; None: as its reads have it. Pure.

    ``budget``: bytes ahead of all readers of the node, of which nobody gets more.
    """
    wanted = -(-knobs.ahead_bytes // CHUNK) if knobs.ahead_bytes is not None else None
    if knobs.streams is not None:  # the reader's own request is one of them
        wanted = knobs.streams - 1 if wanted is None else min(wanted, knobs.streams - 1)
    return None if wanted is None else min(wanted, budget // CHUNK)


@dataclass
class Prefetcher:
    """Follows the readers of one version.

    ``readahead`` is the node's; ``budget``: bytes of it that may be on their way.
    """

    version: CachedVersion
    readahead: Readahead
    budget: int
    _scatter: Scatter = field(init=False)

    def __post_init__(self) -> None:
        info = self.version.manifest.info
        self._scatter = Scatter(weight(info.bytes, info.files), self.budget // 2)

    def missed(
        self, entry: Entry, chunks: range, on_their_way: Container[DownloadKey], knobs: FileKnobs
    ) -> Iterator[Guess]:
        """Yield what to start after a reader asked for these pieces of a file that was not whole here.

        Each is to be started before the next one is asked for; a weighted one that may not stay ends the iteration.
        """
        if not is_whole(entry.size):
            ahead = chunks_ahead(knobs, self.budget)
            for chunk in self.readahead.chunks(entry.ino, chunks, chunk_count(entry.size), ahead):
                yield Guess(entry, chunk)
        elif knobs.ahead_files == 0:
            return
        elif (most := self.readahead.files(entry.parent, entry.ino, knobs.ahead_files)) is not None:
            yield from self._following(entry, most)
        else:
            yield from self._scattered(entry, on_their_way)

    def landed(self, weight: int, *, here: bool) -> None:
        """Take note of the end of a weighted guess, and whether it came."""
        self._scatter.landed(weight, here=here)

    def _following(self, entry: Entry, most: int) -> Iterator[Guess]:
        """Yield the next missing small files of the same folder.

        What is more than the budget would push out what is nearer to the reader: many files only as far as they fit.
        """
        ino, size = entry.ino, 0
        for number in range(most):
            following = self.version.manifest.entry(ino) if (ino := self.version.missing(ino)) > 0 else None
            if following is None or following.parent != entry.parent or not is_whole(following.size):
                return
            size += following.size
            if number >= MOST_FILES and size > self.budget // 2:
                return
            yield Guess(following, 0)
            self.readahead.fetched(entry.parent, ino)

    def _scattered(self, entry: Entry, on_their_way: Container[DownloadKey]) -> Iterator[Guess]:
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

    def _next(self, ino: int, folder: int, on_their_way: Container[DownloadKey]) -> Entry | None:
        """Return the next small file of the folder behind ``ino`` that is missing and not on its way."""
        while (ino := self.version.missing(ino)) > 0 and (ino, 0) in on_their_way:
            pass
        entry = self.version.manifest.entry(ino) if ino > 0 else None
        return entry if entry is not None and entry.parent == folder and is_whole(entry.size) else None
