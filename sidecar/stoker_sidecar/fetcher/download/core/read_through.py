"""Files that are held for a while and not kept: the last reads, and known next reads. Pure."""

import sys
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from stoker_sidecar.fetcher.download.core.next_uses import NextUses
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.fetcher.space.cache_disk import LEAST_ROOM

# Share of the limit for known next reads. The rest holds files that were just read, because their readers may have yet
# to open them.
_AHEAD_SHARE = 0.75
# Share of the requested bytes that may be prefetched in vain, on top of the limit itself. Readers do not request files
# that are still in the page cache.
_IN_VAIN = 0.25


@dataclass
class _Held:
    """A file that is held. ``size``: bytes of it that are here; ``asked``: a reader has asked for it.

    ``in_vain``: it was counted as unread.
    """

    size: int
    whole: int
    asked: bool = False
    in_vain: bool = False


def room_to_pass(available: int, held: int) -> int:
    """Return how many bytes of a disk read-through copies may take. Pure.

    ``available``: free bytes of the disk; ``held``: bytes of copies on the disk now. On a nearly full disk, they take
    half of the rest.
    """
    room = available + held
    return max(room - LEAST_ROOM, room // 2)


def _nothing() -> None:
    """Ignore the notice."""


@dataclass
class Transients:
    """The files that are only read through, by inode; ``limit`` bytes in all.

    The least recently used file is dropped first. If ``uses`` are known, the files to be read next are dropped last, in
    reverse order. ``unread_bytes``: of prefetched files that were dropped or left the window without a read; the caller
    that counts them resets it. ``asked``: called when a reader has requested a file.
    """

    limit: int
    total: int = 0
    unread_bytes: int = 0
    uses: NextUses | None = None
    asked: Callable[[], None] = _nothing
    _held: dict[int, _Held] = field(default_factory=dict)
    _wanted: dict[int, int] = field(default_factory=dict)  # held files that are read next -> their full size
    _others: OrderedDict[int, None] = field(default_factory=OrderedDict)  # least recently used first
    _far: list[int] = field(default_factory=list)  # wanted files, by place; entries may be outdated
    _last: int = 0
    _wanted_bytes: int = 0
    _worth: float = field(init=False)  # bytes that may still be fetched in vain

    def __post_init__(self) -> None:
        self._worth = float(self.limit)

    def lets_pass(self, lane: Lane, whole: int) -> bool:
        """Return True if a file that does not stay is fetched: for a waiting reader, or for a known next read."""
        return lane is Lane.DEMAND or (lane is Lane.READAHEAD and self.may_hold(whole))

    def may_hold(self, whole: int) -> bool:
        """Return True if a file of this size may be prefetched."""
        return self.uses is not None and whole <= self.limit * _AHEAD_SHARE

    def takes_ahead(self, ino: int, whole: int, on_their_way: int) -> bool:
        """Return True if a file may be prefetched now. ``on_their_way``: bytes of prefetches in flight.

        If the room is too small for both, a file that is read later loses its protection.
        """
        if not self.may_hold(whole) or self._worth <= 0:
            return False
        room = self.limit * _AHEAD_SHARE - on_their_way - whole
        while ino not in self._wanted and self._wanted_bytes > room:
            if not self._far or self._place(self._far[-1]) <= self._place(ino):
                return False
            self._let_go(self._far.pop())
        return True

    def prefetch(self, uses: NextUses | None) -> None:
        """Set the next uses; None: none are known."""
        self.uses = uses
        if not self._held:  # mostly: all of the version fits
            self._far = []
            return
        coming = uses.files() if uses is not None else []
        self._far = self._soonest(coming)
        for ino in self._wanted.keys() - set(coming):
            self._pass_by(ino)
        for ino in self._wanted.keys() - set(self._far):
            self._let_go(ino)
        for ino in self._far:
            self._want(ino)

    def _soonest(self, coming: list[int]) -> list[int]:
        """Return the held files that are read soonest and fit into the room for them: always at least the first."""
        soon, left = list[int](), self.limit * _AHEAD_SHARE
        for ino in coming:
            if (one := self._held.get(ino)) is not None:
                if soon and one.whole > left:
                    break
                soon.append(ino)
                left -= one.whole
        return soon

    def hold(self, ino: int, size: int, whole: int) -> None:
        """Note a use of a file now: ``size`` of its ``whole`` bytes are here."""
        one = self._held.setdefault(ino, _Held(0, whole))
        self.total += size - one.size
        one.size = size
        self._use(ino)
        if self.uses is not None and self.uses.place(ino) is not None:
            self._want(ino)

    def touch(self, ino: int, *, to_end: bool) -> None:
        """Note that a reader asks for it now; ``to_end``: for its last byte, too."""
        if (one := self._held.get(ino)) is None:
            return
        if not one.asked:
            self._worth = min(float(self.limit), self._worth + _IN_VAIN * one.size)
        one.asked = True
        if to_end and self.uses is not None:
            self.uses.read(ino)
            if self.uses.place(ino) is None:
                self._let_go(ino)
            else:  # it is read again
                insort(self._far, ino, key=self._place)
        self._use(ino)
        self.asked()

    def release(self, ino: int) -> None:
        """Forget a file that is gone."""
        if ino in self._held:
            self._pass_by(ino)
            self.total -= self._held.pop(ino).size
            self._others.pop(ino, None)

    def surplus(self, busy: Container[int], room: int = sys.maxsize) -> list[int]:
        """Choose the files to drop; never the last used one nor those in ``busy``.

        ``room``: the limit of all in bytes.
        """
        over, drop = self.total - min(self.limit, room), []
        for ino in self._leavers() if over > 0 else ():
            if over <= 0:
                break
            if ino not in busy:
                drop.append(ino)
                over -= self._held[ino].size
        return drop

    def last_resort(self, busy: Container[int]) -> list[int]:
        """Choose the last used file, unless it is in ``busy``, if it is the only one: the disk has no room for another.

        Its reader may have yet to open it, and then asks again.
        """
        return list(self._held) if len(self._held) == 1 and not any(ino in busy for ino in self._held) else []

    def _leavers(self) -> Iterator[int]:
        """Yield all but the last used file: files without a known next read first, then those read last."""
        yield from (ino for ino in self._others if ino != self._last)
        yield from (ino for ino in sorted(self._wanted, key=self._place, reverse=True) if ino != self._last)

    def _place(self, ino: int) -> int:
        """Return how many files are read before this one. A file without a known next read is last."""
        place = self.uses.place(ino) if self.uses is not None else None
        return sys.maxsize if place is None else place

    def _use(self, ino: int) -> None:
        self._last = ino
        if ino not in self._wanted:
            self._others[ino] = None
            self._others.move_to_end(ino)

    def _want(self, ino: int) -> None:
        if ino not in self._wanted:
            self._wanted[ino] = self._held[ino].whole
            self._wanted_bytes += self._wanted[ino]
            self._others.pop(ino, None)

    def _let_go(self, ino: int) -> None:
        if ino in self._wanted:
            self._wanted_bytes -= self._wanted.pop(ino)
            self._others[ino] = None

    def _pass_by(self, ino: int) -> None:
        """Remove its protection. Count it as unread if no reader requested it."""
        one = self._held[ino]
        if ino in self._wanted and not (one.asked or one.in_vain):
            one.in_vain = True
            self.unread_bytes += one.size
            self._worth -= one.size
        self._let_go(ino)
