"""Selects the pieces of a known order to read into memory now: a window of bytes ahead of the readers. Pure."""

import struct
from collections.abc import Collection, Sequence
from itertools import islice
from math import ceil
from typing import NamedTuple

from stoker_sidecar.fetcher.pages.core.open_watchpoints import STRIDE, OpenWatchpoints
from stoker_sidecar.wire.fetcher_hints import MOST_UPCOMING, PageWindow

_PIECE, _INO = struct.Struct("<IIQ"), struct.Struct("<I")
# Maximum number of pieces that are kept, read or not: 5 MB.
_MOST_KEPT = 40 * MOST_UPCOMING
# Seconds for which the reported pace is trusted. Reports come four times a second.
_TRUST = 1.0
# The window: seconds of the pace, and minimum bytes.
_SECONDS, _LEAST_BYTES = 10.0, 64 * 1024**2
# Pieces and seconds of the pace that are too close to readers for a prefetch. Readers load these themselves, and the
# prefetch starts behind them.
_CLOSE, _CLOSE_SECONDS = 2 * STRIDE, 0.01
# Minimum pieces of a round, while more are ahead of the readers.
_FEW = 64
# Wires beyond the prefetched pieces, which detect readers that overtake. Distance between wires, and range, in pieces.
_SCOUTS_APART, _SCOUTS = 8 * STRIDE, 4096
# Pieces this far behind readers are not given back: a multiple of the bytes that stay behind readers, and a minimum in
# pieces.
_STALE_WINDOWS, _LEAST_STALE = 8, 512
# A file takes at least a page. The second value is the weight of the last pieces in the mean size.
_LEAST_SIZE, _FRESH = 4096.0, 1 / 8


class NumberedPiece(NamedTuple):
    """The ``number``-th piece of an order: bytes of a file; ``length`` 0: all of it."""

    number: int
    ino: int
    length: int
    offset: int

    @property
    def is_file(self) -> bool:
        """Whether it is a whole file, which is opened when it is read."""
        return not self.length and not self.offset


class PrefetchQueue:
    """The next reads of one reader.

    ``mean``: bytes of a piece, a guess until the first pieces arrive. Times in seconds.
    """

    def __init__(self, mean: float) -> None:
        self.mean = max(_LEAST_SIZE, mean)
        self._kept = bytearray()
        self._first = 0  # the number of the first that is kept
        self._next = 0  # of the next one to be brought
        self._spent = 0  # of the next one to be given back
        self._seen = self._at = self._pace = 0.0
        self._wires = OpenWatchpoints()
        self.told = 0.0
        self.begun = 0  # number of restarts, each of which discards the wires

    def take(self, message: PageWindow, now: float) -> None:
        """Take a window that a reader sent."""
        if message.first != self._end or not message.first:
            self._kept.clear()
            self._first = self._next = self._spent = message.first
            self._wires = OpenWatchpoints()
            self.begun += 1
        self._kept += message.pieces[: len(message.pieces) // _PIECE.size * _PIECE.size]
        self._seen, self._at, self._pace, self.told = message.seen, message.at, message.pace, now
        self._wires.skip(int(self._seen))
        kept = len(self._kept) // _PIECE.size
        gone = max(min(int(self._seen), self._next) - self._first, kept - _MOST_KEPT, 0)
        if gone > MOST_UPCOMING:
            del self._kept[: gone * _PIECE.size]
            self._first += gone

    def ahead(self, now: float) -> int:
        """Return the estimated bytes in memory that readers have yet to read."""
        return int(max(0.0, self._next - self._place(now)) * self.mean)

    def wire(self, number: int) -> None:
        """Note that a watch reports the opening of a piece."""
        self._wires.lay(number)

    def unwire(self, pieces: Sequence[NumberedPiece]) -> list[int]:
        """Return which pieces have wires, and take these up: they are opened to be brought."""
        return self._wires.take_up(pieces[0].number, pieces[-1].number + 1) if pieces else []

    def opened(self, numbers: Collection[int], now: float) -> None:
        """Record the wired pieces that were opened since the last call; possibly none."""
        self._wires.tripped(numbers, now)

    def scouts(self) -> list[NumberedPiece]:
        """Return the pieces beyond the prefetched ones that get wires."""
        first = -(-max(self._next, self._wires.passed or 0) // _SCOUTS_APART) * _SCOUTS_APART
        end = min(self._next + _SCOUTS, self._end)
        numbers = (one for one in range(first, end, _SCOUTS_APART) if not self._wires.has(one))
        return [self._piece(one) for one in numbers if self.tells(one)]

    def tells(self, number: int) -> bool:
        """Return True if the next opening of a piece's file belongs to this piece.

        A window on few files covers several epochs, so that readers first open the file for an earlier piece. A late
        loader does so, too.
        """
        if not self._first <= number < self._end:
            return False
        begin = max(self._first, int(self._seen) if self._wires.done is None else self._wires.done)
        ino = _INO.pack(self._piece(number).ino)
        start, end = ((one - self._first) * _PIECE.size for one in (begin, number))
        while (start := self._kept.find(ino, start, end)) >= 0:
            if not start % _PIECE.size:
                return False
            start += 1
        return True

    @property
    def passed(self) -> int | None:
        """The number of the piece that readers were last seen to open, by wires; None: by none so far."""
        return self._wires.passed

    def is_wanting(self, now: float, room: int) -> bool:
        """Return True if enough pieces are due to begin a round."""
        begin, end = self._due_range(now, room, _FEW)
        return begin < end

    def wanted(self, now: float, room: int, most: int) -> list[NumberedPiece]:
        """Return the next pieces to prefetch, at most ``most``. ``room``: bytes that may be ahead of readers."""
        begin, end = self._due_range(now, room, most)
        self._next = max(self._next, end)
        return [self._piece(number) for number in range(begin, end)]

    def _due_range(self, now: float, room: int, most: int) -> tuple[int, int]:
        wired = self._wires.place(now)
        pace = self._pace if wired is None else self._wires.pace
        window = min(room, max(_LEAST_BYTES, pace * _SECONDS * self.mean))
        begin = max(self._next, int(self._seen), self._first, self._leap(wired, window))
        # Loaders that read batches in turn have read a part of the pieces ahead.
        ahead = self._wires.read_beyond + window / self.mean
        end = min(begin + most, int(self._place(now) + ahead), self._end)
        few = end - begin < min(_FEW, most, window / self.mean / 2) and end < self._end
        return (begin, begin) if few and begin > self._place(now) else (begin, end)

    def _leap(self, wired: float | None, window: float) -> int:
        """Return the first piece that can still arrive before its readers."""
        if wired is None:
            return 0
        close = min(_CLOSE + self._wires.pace * _CLOSE_SECONDS, window / self.mean / 2)
        return int(wired + close)

    def spent(self, now: float, behind: int, most: int) -> list[NumberedPiece]:
        """Return prefetched pieces that were read, each once: those more than ``behind`` bytes behind the readers.

        Pieces that readers have yet to open, by the wires, stay. So does a piece whose file comes again in the
        prefetched part or has a wire, because giving it back opens the file.
        """
        place = self._place(now)
        # Skip pieces far behind: they are gone, and dropping them again takes time from prefetches.
        begin = max(self._spent, self._first, int(place - max(_STALE_WINDOWS * behind / self.mean, _LEAST_STALE)))
        end = min(begin + most, int(place - behind / self.mean), self._next)
        if self._wires.done is not None:
            end = min(end, self._wires.done)
        if end - begin < max(_FEW, min(most, int(self._next - place)) // 4):
            return []
        self._spent = end
        again = {self._piece(number).ino for number in (*range(end, self._next), *self._wires.beyond(self._next))}
        return [piece for piece in map(self._piece, range(begin, end)) if piece.ino not in again]

    def due(self, now: float, most: int) -> list[NumberedPiece]:
        """Return prefetched pieces that readers reach within the next half of the prefetched part."""
        begin = max(self._first, ceil(self._place(now)))
        end = begin + (self._next - begin + 1) // 2
        numbers = (one for one in range(begin, end, max(1, (end - begin) // most)) if not self._wires.has(one))
        return [self._piece(number) for number in islice(numbers, most)]

    def lost(self, now: float) -> None:
        """Note that due pieces were evicted from memory, so that they are wanted again."""
        self._next = max(self._first, min(self._next, int(self._place(now))))

    def brought(self, pieces: int, size: int) -> None:
        """Note the total size of a number of pieces."""
        if pieces:
            self.mean = max(_LEAST_SIZE, self.mean + _FRESH * (size / pieces - self.mean))

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next check without news. None: no check is needed."""
        wired = self._wires.place(now) is not None
        pace = self._wires.pace if wired else self._pace
        if not wired and (not pace or now - self.told >= _TRUST):
            return None
        return min(0.1, max(0.01, _FEW / pace)) if pace else 0.1

    def _piece(self, number: int) -> NumberedPiece:
        return NumberedPiece(number, *_PIECE.unpack_from(self._kept, (number - self._first) * _PIECE.size))

    @property
    def _end(self) -> int:
        """The number behind the last that is kept."""
        return self._first + len(self._kept) // _PIECE.size

    def _place(self, now: float) -> float:
        wired = self._wires.place(now)
        if wired is not None:
            return max(self._seen, wired)
        return self._at + self._pace * min(max(0.0, now - self.told), _TRUST)
