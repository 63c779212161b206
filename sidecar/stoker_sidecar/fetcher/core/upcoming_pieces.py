"""Which pieces of a known order are to be read into memory now: a window of bytes ahead of where readers are. Pure."""

import struct
from collections.abc import Collection, Sequence
from itertools import islice
from math import ceil
from typing import NamedTuple

from stoker_sidecar.fetcher.core.trip_wires import STRIDE, TripWires
from stoker_sidecar.wire.fetcher_protocol import MOST_UPCOMING, Upcoming

_PIECE, _INO = struct.Struct("<IIQ"), struct.Struct("<I")
# Pieces that are kept at most, read or not: 5 MB.
_MOST_KEPT = 40 * MOST_UPCOMING
# Seconds for which the told pace is believed: it is told four times a second.
_TRUST = 1.0
# The window: so many seconds of the pace, and bytes at least.
_SECONDS, _LEAST_BYTES = 10.0, 64 * 1024**2
# Readers are there before a piece can come that is so few ahead of them, and those of so many seconds of their pace: it
# is left to them, and what they will not have reached is begun instead.
_CLOSE, _CLOSE_SECONDS = 2 * STRIDE, 0.01
# Pieces that are worth a round of their own, while there are others ahead of the readers.
_FEW = 64
# Wires beyond what was brought, so that readers who have overtaken it are seen: so far apart, and so far ahead.
_SCOUTS_APART, _SCOUTS = 8 * STRIDE, 4096
# What is so many times as far behind readers as what was read stays is not given back any more; pieces at least.
_STALE_WINDOWS, _LEAST_STALE = 8, 512
# A file takes a page at least. Of what was brought, so much of the mean size is of the last pieces.
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


class UpcomingPieces:
    """What one reader will read. ``mean``: bytes of a piece, a guess until some were brought. Times in seconds."""

    def __init__(self, mean: float) -> None:
        self.mean = max(_LEAST_SIZE, mean)
        self._kept = bytearray()
        self._first = 0  # the number of the first that is kept
        self._next = 0  # of the next one to be brought
        self._spent = 0  # of the next one to be given back
        self._seen = self._at = self._pace = 0.0
        self._wires = TripWires()
        self.told = 0.0
        self.begun = 0  # times that wires which were laid before count no more

    def take(self, message: Upcoming, now: float) -> None:
        """Take what was told."""
        if message.first != self._end or not message.first:
            self._kept.clear()
            self._first = self._next = self._spent = message.first
            self._wires = TripWires()
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
        """Return the bytes that are in memory before they were read, as far as can be told."""
        return int(max(0.0, self._next - self._place(now)) * self.mean)

    def wire(self, number: int) -> None:
        """Take note that the opening of a piece will be told."""
        self._wires.lay(number)

    def unwire(self, pieces: Sequence[NumberedPiece]) -> list[int]:
        """Return which pieces have wires, and take these up: they are opened to be brought."""
        return self._wires.take_up(pieces[0].number, pieces[-1].number + 1) if pieces else []

    def opened(self, numbers: Collection[int], now: float) -> None:
        """Take the pieces with wires that were opened since the last call, which may be none."""
        self._wires.tripped(numbers, now)

    def scouts(self) -> list[NumberedPiece]:
        """Return the pieces beyond what was brought that are to have wires."""
        first = -(-max(self._next, self._wires.passed or 0) // _SCOUTS_APART) * _SCOUTS_APART
        end = min(self._next + _SCOUTS, self._end)
        numbers = (one for one in range(first, end, _SCOUTS_APART) if not self._wires.has(one))
        return [self._piece(one) for one in numbers if self.tells(one)]

    def tells(self, number: int) -> bool:
        """Tell whether the next opening of a piece's file is that of this piece.

        A window on few files is several epochs long: readers then open them for an earlier piece first; so does one of
        several loaders that comes last.
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
        """Tell whether enough is wanted to begin with it."""
        begin, end = self._due_range(now, room, _FEW)
        return begin < end

    def wanted(self, now: float, room: int, most: int) -> list[NumberedPiece]:
        """Return the next pieces that are to be brought, ``most`` at most, where so many bytes may be ahead."""
        begin, end = self._due_range(now, room, most)
        self._next = max(self._next, end)
        return [self._piece(number) for number in range(begin, end)]

    def _due_range(self, now: float, room: int, most: int) -> tuple[int, int]:
        wired = self._wires.place(now)
        pace = self._pace if wired is None else self._wires.pace
        window = min(room, max(_LEAST_BYTES, pace * _SECONDS * self.mean))
        begin = max(self._next, int(self._seen), self._first, self._leap(wired, window))
        # Loaders that read a batch one after the other have read some of what lies ahead of all of them.
        ahead = self._wires.read_beyond + window / self.mean
        end = min(begin + most, int(self._place(now) + ahead), self._end)
        few = end - begin < min(_FEW, most, window / self.mean / 2) and end < self._end
        return (begin, begin) if few and begin > self._place(now) else (begin, end)

    def _leap(self, wired: float | None, window: float) -> int:
        """Return the first piece that can still be brought before readers come to it."""
        if wired is None:
            return 0
        close = min(_CLOSE + self._wires.pace * _CLOSE_SECONDS, window / self.mean / 2)
        return int(wired + close)

    def spent(self, now: float, behind: int, most: int) -> list[NumberedPiece]:
        """Return pieces that were brought and have been read, each once: those so many bytes behind the readers.

        None that readers have not opened as far as wires tell, and none whose file comes once more in what was brought,
        or has a wire: it is opened to be given back.
        """
        place = self._place(now)
        # What is farther behind is long gone: dropping it again would take the time of what is to be brought.
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
        """Return pieces that were brought and are due to be read within the next half of what was."""
        begin = max(self._first, ceil(self._place(now)))
        end = begin + (self._next - begin + 1) // 2
        numbers = (one for one in range(begin, end, max(1, (end - begin) // most)) if not self._wires.has(one))
        return [self._piece(number) for number in islice(numbers, most)]

    def lost(self, now: float) -> None:
        """Take note that what is due is not in memory any more: it is wanted again."""
        self._next = max(self._first, min(self._next, int(self._place(now))))

    def brought(self, pieces: int, size: int) -> None:
        """Take note of how many bytes so many pieces were."""
        if pieces:
            self.mean = max(_LEAST_SIZE, self.mean + _FRESH * (size / pieces - self.mean))

    def wait(self, now: float) -> float | None:
        """Return the seconds until it is worth a look though nothing is told; None: it is not."""
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
