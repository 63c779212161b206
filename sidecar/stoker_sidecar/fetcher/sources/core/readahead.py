"""The next reads, guessed from earlier reads that missed the cache. This module fetches nothing.

In order: the following chunks of a large file, the following small files of a folder and of the next folders. Windows
double while the guess holds, up to the reader's horizon (``horizon``), and restart after a seek. So the bytes fetched
in vain stay at about the bytes requested. Lanes (``lanes``) keep the budget of bytes for the whole node.

At random: an epoch in shuffled order jumps all over a version. Hits leave no trace here, because an overlay serves them
in the kernel. So they are estimated from the misses. Random readers hit fetched files in proportion to the share of
these among all unread files.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from stoker_sidecar.fetcher.sources.core.horizon import TRACED, UNTRACED, Horizon

T = TypeVar("T")

# Of one file or folder, of all readers together: 16 data loader workers that each read a part of it.
_STREAMS = 16
# Files and folders that are remembered, the last used ones: some 200 bytes each. ImageNet has a thousand folders.
_KEPT = 4096
# Files ahead of readers in order, unless a product of their rate and the source's delay asks for more.
MOST_FILES = 64
# A window is at most twice as long as the files read in order so far.
_IN_VAIN = 2
# A reader's first step to the next folder or large file is not sure: its window shrinks to a quarter there.
_UNPROVEN = 4
# Readers that go through a folder together ask a little out of order.
_SLACK = 8


@dataclass
class _Stream:
    """One reader of a large file. ``next``: the chunk after its last request; ``window``: chunks to be ahead.

    ``crosses``: it came to this file from the end of the previous one.
    """

    next: int
    window: int
    crosses: bool = False
    horizon: Horizon = field(default_factory=Horizon)


@dataclass
class _Trail:
    """Readers of consecutive folders, in order from ``start``.

    ``at``: the last inode asked for; ``end``: the last one asked for or fetched ahead. ``border``: the first inode
    behind the first folder, once it was fetched ahead. ``crosses``: a reader went beyond the border.
    """

    start: int
    at: int
    end: int
    window: int = 0
    border: int = 0
    crosses: bool = False
    horizon: Horizon = field(default_factory=Horizon)


class FilesAhead(NamedTuple):
    """Fetch ``number`` files behind inode ``after``."""

    after: int
    number: int


@dataclass
class Readahead:
    """The readers of one version in order, by file and by folder.

    ``most_chunks``: the widest window of one reader of a large file; 0 turns readahead off. ``delay``: seconds of the
    source's shortest request, 0: unknown. ``clock``: seconds, monotonic.
    """

    most_chunks: int
    delay: Callable[[], float]
    clock: Callable[[], float]
    _files: OrderedDict[int, list[_Stream]] = field(default_factory=OrderedDict)
    _folders: OrderedDict[int, _Trail] = field(default_factory=OrderedDict)
    # The files that readers probably open next, and their streams in the previous files.
    _expected: OrderedDict[int, _Stream] = field(default_factory=OrderedDict)

    def chunks(self, ino: int, asked: range, ahead: int | None = None) -> range:
        """Return the chunks to have ready after a reader asked for ``asked`` of a file. They may exceed the file.

        ``ahead``: as many, as soon as it reads in order; None: more and more while it does.
        """
        streams = _recall(self._files, ino, list)
        stream = next((one for one in streams if one.next - 1 <= asked.start <= one.next), None)
        if stream is None:
            # A first read at the start of a file counts as sequential. One in the middle must continue first.
            stream = self._continued(ino, asked.stop) if asked.start == 0 else _Stream(asked.stop, 0)
            streams.append(stream)
            del streams[:-_STREAMS]
        elif asked.stop > stream.next:
            stream.horizon.passed(asked.stop - stream.next, self.clock(), self.delay())
            stream.next, stream.window = asked.stop, max(1, stream.window * 2)
        else:
            return range(0)  # still in its last chunk
        stream.window = min(stream.window, self._most_chunks(stream))
        if ahead is not None and self.most_chunks:
            stream.window = ahead if stream.window else 0
        return range(stream.next, stream.next + stream.window)

    def _most_chunks(self, stream: _Stream) -> int:
        """Return the limit of a window: twice the usual one if the product of rate and delay asks for it."""
        return min(2 * self.most_chunks, max(self.most_chunks, stream.horizon.pieces(self.delay(), TRACED)))

    def _continued(self, ino: int, after: int) -> _Stream:
        """Return the stream at the start of a file: that of the previous file continues, if one led here."""
        before = self._expected.pop(ino, None)
        return _Stream(after, 1) if before is None else _Stream(after, before.window, True, before.horizon)

    def continues(self, ino: int, following: int, left: int) -> int:
        """Return how many of ``left`` chunks beyond the end of a file to fetch from the following file.

        None after a single request. At most a quarter of this file's chunks, until a reader went from file to file.
        """
        stream = self._files[ino][-1]
        _recall(self._expected, following, lambda: stream)
        if stream.crosses:
            return left
        return min(left, stream.next // _UNPROVEN) if stream.window > 1 else 0

    def files(self, folder: int, ino: int, *, late: bool = False, ahead: int | None = None) -> FilesAhead | None:
        """Return the files to fetch when a reader missed file ``ino`` of a folder.

        ``late``: the file was on its way, and so are the next ones. ``ahead``: a fixed number, once readers go in
        order; None: a growing number while they do.

        None: readers jump in this folder, and Scatter predicts their reads.
        """
        if not self.most_chunks:
            return FilesAhead(ino, 0)
        known = folder in self._folders
        trail = _recall(self._folders, folder, lambda: self._continuing(ino) or _Trail(ino, ino, ino))
        if not trail.start < ino <= trail.end + _SLACK:
            self._folders[folder] = _Trail(ino, ino, ino)
            return None if known else FilesAhead(ino, 0)
        self._advance(trail, ino)
        if ahead is not None:
            trail.window = ahead
        after = trail.end if late else ino
        return FilesAhead(after, max(0, trail.window - (after - ino)))

    def _continuing(self, ino: int) -> _Trail | None:
        """Return the last used trail if its readers go on with this file of a new folder."""
        trail = next(reversed(self._folders.values()), None)
        if trail is None or not (trail.window and trail.at < ino <= trail.end + _SLACK):
            return None
        trail.crosses = True
        return trail

    def _advance(self, trail: _Trail, ino: int) -> None:
        delay = self.delay()
        trail.horizon.passed(max(0, ino - trail.at), self.clock(), delay)
        trail.at, trail.end = max(ino, trail.at), max(ino, trail.end)
        trail.crosses = trail.crosses or 0 < trail.border <= ino
        most = min(max(MOST_FILES, trail.horizon.pieces(delay, UNTRACED)), _IN_VAIN * (ino - trail.start))
        trail.window = min(most, max(1, trail.window * 2))

    def crosses(self, folder: int, other: int, ino: int) -> bool:
        """Return True if readers in order of ``folder`` probably continue with file ``ino`` of another folder."""
        trail, following = self._folders.get(folder), self._folders.get(other)
        if trail is None or following not in (None, trail):
            return False
        trail.border = trail.border or ino
        if not trail.crosses and ino - trail.border >= trail.window // _UNPROVEN:
            return False
        _recall(self._folders, other, lambda: trail)
        return True

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
