"""Files that are held for a while and not kept: those read last, and those that are known to be read next. Pure."""

import sys
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from stoker_sidecar.fetcher.core.lanes import Lane
from stoker_sidecar.fetcher.core.next_uses import NextUses

# Of the limit, what is known to be read next may take so much: the rest holds what was just read, which its reader may
# not have opened yet.
_AHEAD_SHARE = 0.75
# So much of what readers ask for may be fetched ahead in vain, and once the limit: files that are still in the page
# cache are asked for by nobody.
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


def _nothing() -> None:
    """Tell nobody."""


@dataclass
class Transients:
    """The files that are only read through, by inode; ``limit`` bytes in all.

    Who was used least recently is dropped first. Where ``uses`` are known, what is read next is dropped last, the
    soonest at the very last. ``unread_bytes``: of files that were to be read next, and that nobody had asked for when
    they were dropped, or were due no more; who counts them sets it back. ``asked``: called when a reader has asked for
    a file.
    """

    limit: int
    total: int = 0
    unread_bytes: int = 0
    uses: NextUses | None = None
    asked: Callable[[], None] = _nothing
    _held: dict[int, _Held] = field(default_factory=dict)
    _wanted: dict[int, int] = field(default_factory=dict)  # what is read next of what is held -> its size as a whole
    _others: OrderedDict[int, None] = field(default_factory=OrderedDict)  # who was used least recently first
    _far: list[int] = field(default_factory=list)  # of what is wanted, by place; some are not any more
    _last: int = 0
    _wanted_bytes: int = 0
    _worth: float = field(init=False)  # bytes that may still be fetched in vain

    def __post_init__(self) -> None:
        self._worth = float(self.limit)

    def lets_pass(self, lane: Lane, whole: int) -> bool:
        """Tell whether what does not stay is fetched: for who waits, and for who is known to read it next."""
        return lane is Lane.DEMAND or (lane is Lane.READAHEAD and self.may_hold(whole))

    def may_hold(self, whole: int) -> bool:
        """Tell whether a file of this size is ever fetched before a reader asks for it."""
        return self.uses is not None and whole <= self.limit * _AHEAD_SHARE

    def takes_ahead(self, ino: int, whole: int, on_their_way: int) -> bool:
        """Tell whether a file may be fetched now before a reader asks; ``on_their_way``: bytes that are, for that.

        What is read later than this file waits no more where there is no room for both.
        """
        if not self.may_hold(whole) or self._worth <= 0:
            return False
        room = self.limit * _AHEAD_SHARE - on_their_way - whole
        while ino not in self._wanted and self._wanted_bytes > room:
            if not self._far or self._place(self._far[-1]) <= self._place(ino):
                return False
            self._let_go(self._far.pop())
        return True

    def foresee(self, uses: NextUses | None) -> None:
        """Take next uses, also where they have changed; None: none are known."""
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
        """Return what is held of what is read next, as far as there is room for that: the first one always."""
        soon, left = list[int](), self.limit * _AHEAD_SHARE
        for ino in coming:
            if (one := self._held.get(ino)) is not None:
                if soon and one.whole > left:
                    break
                soon.append(ino)
                left -= one.whole
        return soon

    def hold(self, ino: int, size: int, whole: int) -> None:
        """Note that ``size`` bytes of a file of ``whole`` bytes are here, and that it was used now."""
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
            else:  # it comes again
                insort(self._far, ino, key=self._place)
        self._use(ino)
        self.asked()

    def release(self, ino: int) -> None:
        """Forget a file that is gone."""
        if ino in self._held:
            self._pass_by(ino)
            self.total -= self._held.pop(ino).size
            self._others.pop(ino, None)

    def surplus(self, busy: Container[int]) -> list[int]:
        """Choose which to drop; never the last used one nor those in ``busy``."""
        over, drop = self.total - self.limit, []
        for ino in self._leavers() if over > 0 else ():
            if over <= 0:
                break
            if ino not in busy:
                drop.append(ino)
                over -= self._held[ino].size
        return drop

    def _leavers(self) -> Iterator[int]:
        """Yield all but the last used one: what nobody is known to read first, then what is read last."""
        yield from (ino for ino in self._others if ino != self._last)
        yield from (ino for ino in sorted(self._wanted, key=self._place, reverse=True) if ino != self._last)

    def _place(self, ino: int) -> int:
        """Return how many files are read before this one; one that is due no more is the last."""
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
        """Want it no more, whether or not anybody has asked for it."""
        one = self._held[ino]
        if ino in self._wanted and not (one.asked or one.in_vain):
            one.in_vain = True
            self.unread_bytes += one.size
            self._worth -= one.size
        self._let_go(ino)
