"""What readers will ask for next, guessed from what they asked for and did not find. Nothing here fetches.

In order: the following chunks of a large file, the following small files of a folder. Windows double while the guess
holds and start anew after a seek, so that what is fetched in vain is at most about as much as what was asked for; a
budget of bytes for the whole node is kept by ``fetcher.core.lanes``.

At random: an epoch in shuffled order jumps all over a version. Hits leave no trace here (an overlay answers them in the
kernel), so they are reckoned from the misses: readers who take files at random find as large a share of them here as
there is of all that they have not read yet.
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
# Files ahead in one folder: at 20 ms a GET and 4 readers this is what they read meanwhile from a warm cache.
MOST_FILES = 64
# Readers that go through a folder together ask a little out of order.
_SLACK = 8


@dataclass
class _Stream:
    """One reader of a large file: ``next``: the chunk after those it has asked for; ``window``: chunks to be ahead."""

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
            # From the start of a file is taken for front to back; a read in the middle has to go on first.
            stream = _Stream(asked.stop, 1 if asked.start == 0 else 0)
            streams.append(stream)
            del streams[:-_STREAMS]
        elif asked.stop > stream.next:
            stream.next, stream.window = asked.stop, max(1, stream.window * 2)
        else:
            return range(0)  # still in the chunk that it asked for before
        stream.window = min(stream.window, self.most_chunks)
        if ahead is not None and self.most_chunks:
            stream.window = ahead if stream.window else 0
        return range(stream.next, min(stream.next + stream.window, count))

    def files(self, folder: int, ino: int, ahead: int | None = None) -> int | None:
        """Return how many of the files behind ``ino`` in its folder to fetch, when a reader missed that one.

        ``ahead``: as many, as soon as readers go in order; None: more and more while they do.

        None: its readers jump about in this folder, and ``fetcher.core.readahead`` says what else they will want.
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
    """Return the entry, made when there is none, now the last used; the one that was not used for longest goes."""
    if key not in kept:
        kept[key] = make()
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


# As much is ahead as was asked for; twice as much once that is a tenth of the version, and so on: who has read a
# tenth at random will hardly leave off. An epoch then waits for 15 % of its files (31 % without this, 19 % at twice
# as much always).
_TRUST = 10
# Bytes that a request counts for beside its body: else a reader of one image would have a thousand labels fetched for
# it.
_REQUEST = 16 * 1024


def weight(size: int, files: int = 1) -> int:
    """Weigh ``files`` files of ``size`` bytes in all."""
    return size + files * _REQUEST


@dataclass
class Scatter:
    """What readers at random of one version are owed ahead of them; everything is a `weight`.

    ``total``: all of the version; ``most``: what may be on its way ahead of readers at a time; ``asked``: what readers
    are presumed to have asked for; ``ahead``: what was fetched and no reader is presumed to have come to.
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
        """How much more to fetch now."""
        wanted = self.asked * (1 + _TRUST * self.asked / max(1, self.total))
        return int(min(wanted - self.ahead, self.most - self.on_its_way))

    def started(self, size: int) -> None:
        """Note that a file is on its way ahead of readers."""
        self.ahead += size
        self.on_its_way += size

    def landed(self, size: int, *, here: bool) -> None:
        """Note that a file has come, or that it has not."""
        self.on_its_way -= size
        if not here:
            self.ahead = max(0.0, self.ahead - size)
