"""The next reads, guessed from earlier reads that missed the cache. This module fetches nothing.

In order: the following chunks of a large file, the following small files of a folder. Windows double while the guess
holds, and restart after a seek. So the bytes fetched in vain stay at about the bytes requested. Lanes
(``fetcher.sources.core.lanes``) keep the budget of bytes for the whole node.

At random: an epoch in shuffled order jumps all over a version. Hits leave no trace here, because an overlay serves them
in the kernel. So they are estimated from the misses. Random readers hit fetched files in proportion to the share of
these among all unread files.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

# Of one file or folder, of all readers together: 16 data loader workers that each read a part of it.
_STREAMS = 16
# Files and folders that are remembered, the last used ones: some 200 bytes each. ImageNet has a thousand folders.
_KEPT = 4096
# Files ahead in one folder. At 20 ms a GET, four readers read this number from a warm cache during one GET.
MOST_FILES = 64
# Readers that go through a folder together ask a little out of order.
_SLACK = 8


@dataclass
class _Stream:
    """One reader of a large file. ``next``: the chunk after its last request; ``window``: chunks to be ahead."""

    next: int
    window: int


@dataclass
class _Trail:
    """Readers of one folder, in order from ``start``. ``end``: the last inode asked for or fetched ahead."""

    start: int
    end: int
    window: int = 0


@dataclass
class Readahead:
    """The readers of the node in order, by file and by folder.

    ``most_chunks``: the widest window of one reader of a large file; 0 turns readahead off.
    """

    most_chunks: int
    _files: OrderedDict[int, list[_Stream]] = field(default_factory=OrderedDict)
    _folders: OrderedDict[int, _Trail] = field(default_factory=OrderedDict)

    def chunks(self, ino: int, asked: range, count: int, ahead: int | None = None) -> range:
        """Return the chunks to have ready after a reader asked for ``asked`` of a file of ``count`` chunks.

        ``ahead``: as many, as soon as it reads in order; None: more and more while it does.
        """
        streams = _recall(self._files, ino, list)
        stream = next((one for one in streams if one.next - 1 <= asked.start <= one.next), None)
        if stream is None:
            # A first read at the start of a file counts as sequential. One in the middle must continue first.
            stream = _Stream(asked.stop, 1 if asked.start == 0 else 0)
            streams.append(stream)
            del streams[:-_STREAMS]
        elif asked.stop > stream.next:
            stream.next, stream.window = asked.stop, max(1, stream.window * 2)
        else:
            return range(0)  # still in its last chunk
        stream.window = min(stream.window, self.most_chunks)
        if ahead is not None and self.most_chunks:
            stream.window = ahead if stream.window else 0
        return range(stream.next, min(stream.next + stream.window, count))

    def files(self, folder: int, ino: int, ahead: int | None = None) -> int | None:
        """Return how many of the files behind ``ino`` in its folder to fetch, when a reader missed that one.

        ``ahead``: a fixed number, once readers go in order; None: a growing number while they do.

        None: readers jump in this folder, and Scatter predicts their reads.
        """
        if not self.most_chunks:
            return 0
        known = folder in self._folders
        trail = _recall(self._folders, folder, lambda: _Trail(ino, ino))
        in_order = trail.start < ino <= trail.end + _SLACK
        if in_order:
            trail.window = min(MOST_FILES, max(1, trail.window * 2)) if ahead is None else ahead
            trail.end = max(ino, trail.end)
        else:
            trail.start, trail.end, trail.window = ino, ino, 0
        return trail.window if in_order or not known else None

    def fetched(self, folder: int, ino: int) -> None:
        """Note that files of the folder are on their way up to ``ino``: the next miss is expected behind it."""
        if folder in self._folders:
            self._folders[folder].end = max(self._folders[folder].end, ino)


def _recall(kept: OrderedDict[int, T], key: int, make: Callable[[], T]) -> T:
    """Return the entry, now the most recently used. Create it if it is missing, and evict the least recently used."""
    if key not in kept:
        kept[key] = make()
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


# Fetch as much ahead as was requested, twice as much after a tenth of the version, three times after two tenths, and so
# on. A reader that has read a tenth at random will hardly stop. An epoch then waits for 15 % of its files (31 % without
# this, 19 % at a constant factor of two).
_TRUST = 10
# Bytes that a request counts for on top of its body. Without them, one image would cause a thousand prefetched labels.
_REQUEST = 16 * 1024


def weight(size: int, files: int = 1) -> int:
    """Weigh ``files`` files of ``size`` bytes in all."""
    return size + files * _REQUEST


@dataclass
class Scatter:
    """Prefetch credit of the random readers of one version. All values are a `weight`.

    ``total``: the whole version. ``most``: limit of prefetches in flight. ``asked``: estimated requests of readers.
    ``ahead``: prefetched files that readers have presumably not reached.
    """

    total: int
    most: int
    asked: float = 0.0
    ahead: float = 0.0
    on_its_way: int = 0

    def missed(self, size: int, missing: int) -> None:
        """Note that a reader asked for a file that was not here, as ``missing`` of the version is not."""
        met = self.ahead * min(1.0, size / max(1, missing))
        self.ahead -= met
        self.asked += size + met

    @property
    def room(self) -> int:
        """Bytes to fetch now."""
        wanted = self.asked * (1 + _TRUST * self.asked / max(1, self.total))
        return int(min(wanted - self.ahead, self.most - self.on_its_way))

    def started(self, size: int) -> None:
        """Note that a file is on its way ahead of readers."""
        self.ahead += size
        self.on_its_way += size

    def landed(self, size: int, *, here: bool) -> None:
        """Note that a file has arrived, or failed."""
        self.on_its_way -= size
        if not here:
            self.ahead = max(0.0, self.ahead - size)
