"""One origin's cap, divided over the nodes that fetch: what each may use together is never more than the cap.

A share is the cap over a *level*, which is a number of nodes with room for more: so one node that begins or ends
changes the others' shares seldom, and costs five writes on average, however many there are. Nobody is given more before
those who are to use less have said that they do.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from stoker_api.origin import OriginShare
from stoker_operator.core.origin_policy import NO_CAP, Cap

# Up to so many nodes the cap is divided exactly; more by levels, each so many times the one before: a fifth of the cap
# is left over at the worst.
_EXACT, _STEP = 8, 1.25
_LEVELS: Final = 60  # the last one is some two million nodes
# Seconds after which a node whose NodeCache says less is taken to hold to it, also where it has not said so.
CONFIRM = 60.0
Amounts = tuple[int | None, int | None]  # bytes, and thousandths of requests, a second; None: no limit


def _levels() -> Iterator[int]:
    yield from range(1, _EXACT + 1)
    level = _EXACT
    for _ in range(_LEVELS):
        level = ceil(level * _STEP)
        yield level


LEVELS: Final = tuple(_levels())


def level_for(nodes: int, current: int = 0) -> int:
    """Return the level for so many nodes: the ``current`` one as long as it has room, and is not far too large."""
    wanted = bisect_left(LEVELS, nodes)
    if current <= _EXACT or nodes > current:
        return LEVELS[wanted]
    return LEVELS[wanted] if wanted <= bisect_left(LEVELS, current) - 2 else current


def part_of(cap: Cap, percent: int, level: int) -> Amounts:
    """Return a share: so many hundredths of the cap, over the level."""
    size, requests = cap.bytes_per_second, cap.milli_requests_per_second
    return (
        None if size is None else size * percent // (100 * level),
        None if requests is None else requests * percent // (100 * level),
    )


def to_share(name: str, amounts: Amounts, beginning: Amounts = (None, None)) -> OriginShare:
    """Write a share as nodes are told it, with what every node may use without being given any."""
    return OriginShare(
        name=name,
        bytes_per_second=amounts[0],
        milli_requests_per_second=amounts[1],
        beginning_bytes_per_second=beginning[0],
        beginning_milli_requests_per_second=beginning[1],
    )


@dataclass
class CapDivision:
    """The shares of one origin. ``percent``: of the cap that is divided; ``strict``: never more than that is given.

    ``given``: what each node that fetches is to have, by node. ``cap`` is changed by ``set_cap`` alone.
    """

    percent: int
    strict: bool = True
    cap: Cap = NO_CAP
    level: int = 1
    beginning: Amounts = (0, 0)  # what every node may use without being given anything
    given: dict[str, Amounts] = field(default_factory=dict)
    _fetching: dict[str, None] = field(default_factory=dict)
    # What each node may use at the most, from all that it was given and may not know to be less yet; and their sums.
    _held: dict[str, Amounts] = field(default_factory=dict)
    _counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    _sums: list[int] = field(default_factory=lambda: [0, 0])
    _stale: dict[str, None] = field(default_factory=dict)  # nodes to look at
    _told: dict[str, Amounts] = field(default_factory=dict)  # what NodeCaches say
    # Whose NodeCache says less than it may use still, and since when; the oldest first. Who waits for the write is not
    # among them: what is not written binds nobody.
    _since: dict[str, float] = field(default_factory=dict)

    @property
    def fetching(self) -> int:
        """Nodes that fetch."""
        return len(self._fetching)

    @property
    def held(self) -> tuple[int, int]:
        """Bytes and thousandths of requests a second that all nodes together may use at the most."""
        return self._sums[0], self._sums[1]

    @property
    def behind(self) -> bool:
        """Whether somebody does not have yet what it should."""
        return bool(self._stale)

    def set_cap(self, cap: Cap) -> None:
        """Take another cap."""
        if cap != self.cap:
            self.cap = cap
            self._stale.update(self._fetching)

    def note(self, node: str, *, fetching: bool, told: Amounts | None, confirmed: bool, now: float) -> None:
        """Take what a NodeCache says: whether the node fetches, what it is told, and whether it knows that."""
        if fetching != (node in self._fetching):
            if fetching:
                self._fetching[node] = None
            else:
                del self._fetching[node]
            self._stale[node] = None
            self._relevel()
        self._told.pop(node, None)
        if told is not None:
            self._told[node] = told
            if node not in self.given and node not in self._held and not self._is_beginning(told):  # who led before
                self.given[node] = told
                self._hold(node, self._bounded(told))
                self._stale[node] = None
        self._count_told(node, confirmed=confirmed, now=now)

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._stale.pop(node, None)
        self._since.pop(node, None)
        self._told.pop(node, None)
        self.given.pop(node, None)
        self._hold(node, None)
        if node in self._fetching:
            del self._fetching[node]
            self._relevel()

    def settle_old(self, now: float) -> None:
        """Take those who were told of less a while ago to hold to it."""
        waiting = self._since
        if waiting and next(reversed(waiting.values())) > now:  # the clock was set back: they wait from now on
            waiting.update({node: min(since, now) for node, since in waiting.items()})
        while waiting and (node := next(iter(waiting))) and now - waiting[node] >= CONFIRM:
            self._settle(node)

    def step(self, most: int, now: float) -> set[str]:
        """Give what is to be given, to so many nodes at most; returns those that are to be told something else."""
        goal, changed, waiting = _something(part_of(self.cap, self.percent, self.level)), set[str](), dict[str, None]()
        while self._stale and len(changed) < most:
            node = next(iter(self._stale))
            del self._stale[node]
            wanted = goal if node in self._fetching else None
            old = self.given.get(node)
            if wanted is not None and not self._fits(node, wanted):
                waiting[node] = None
                wanted = None if old is None else _least(old, wanted)
            if wanted == old:
                continue
            self._since.pop(node, None)
            changed.add(node)
            if wanted is None:
                del self.given[node]
            else:
                self.given[node] = wanted
                self._hold(node, _most(self._held.get(node, wanted), wanted))
            if self._held.get(node) != wanted and self._knows(node):
                self._since[node] = now  # there is nothing to write, but more may be on its way still
        self._stale |= waiting
        return changed

    def _count_told(self, node: str, *, confirmed: bool, now: float) -> None:
        """Count a node by what its NodeCache says, beside what it may use from before."""
        told = self._told.get(node)
        if not self._knows(node):
            self._since.pop(node, None)
            if told is not None:
                told = self._bounded(told)
                self._hold(node, _most(self._held.get(node, told), told))
        elif node in self._held and confirmed:
            self._settle(node)
        elif node in self._held and self._held[node] != told:
            self._since.setdefault(node, now)

    def _knows(self, node: str) -> bool:
        """Tell whether a node's NodeCache says what it is to have."""
        told, given = self._told.get(node), self.given.get(node)
        return told == given or (told is not None and given is None and self._is_beginning(told))

    def _is_beginning(self, told: Amounts) -> bool:
        """Tell whether a node is told no more than what every node may begin with, now or at the level before."""
        pairs = zip(told, self.beginning, strict=True)
        return all(most is None or (amount is not None and amount <= 2 * most) for amount, most in pairs)

    def _relevel(self) -> None:
        level = level_for(max(1, len(self._fetching)), self.level)
        if level != self.level:
            self.level = level
            self._stale.update(self._fetching)

    def _fits(self, node: str, wanted: Amounts) -> bool:
        """Tell whether so much may be given without that all together might use more than is divided."""
        if not self.strict:
            return True
        before = self._counted.get(node, (0, 0))
        after = self._count(_most(self._held.get(node, wanted), wanted))
        parts = zip(self._sums, before, after, part_of(self.cap, self.percent, 1), strict=True)
        return all(whole is None or new <= old or sum_ - old + new <= whole for sum_, old, new, whole in parts)

    def _count(self, amounts: Amounts) -> tuple[int, int]:
        """Return what is taken of the part that is divided: nothing by who may use no more than any node."""
        pairs = zip(amounts, self.beginning, strict=True)
        size, requests = (0 if one is None or (least is not None and one <= least) else one for one, least in pairs)
        return size, requests

    def _bounded(self, told: Amounts) -> Amounts:
        """Count who was told of no limit, where there is one now, with all of it."""
        pairs = zip(told, part_of(self.cap, self.percent, 1), strict=True)
        size, requests = (whole if amount is None else amount for amount, whole in pairs)
        return size, requests

    def _settle(self, node: str) -> None:
        """Count a node with what it is to have."""
        self._since.pop(node, None)
        self._hold(node, self.given.get(node))

    def _hold(self, node: str, amounts: Amounts | None) -> None:
        old = self._counted.pop(node, (0, 0))
        new = (0, 0) if amounts is None else self._count(amounts)
        for place in range(2):
            self._sums[place] += new[place] - old[place]
        if amounts is None:
            self._held.pop(node, None)
        else:
            self._held[node], self._counted[node] = amounts, new


def _something(goal: Amounts) -> Amounts:
    """Return a share of which something can be asked some day, however many nodes there are."""
    size, requests = (amount if amount is None else max(1, amount) for amount in goal)
    return size, requests


def _most(one: Amounts, other: Amounts) -> Amounts:
    """Return the larger of each; no limit is the largest."""
    pairs = zip(one, other, strict=True)
    size, requests = (None if a is None or b is None else max(a, b) for a, b in pairs)
    return size, requests


def _least(one: Amounts, other: Amounts) -> Amounts:
    pairs = zip(one, other, strict=True)
    size, requests = (b if a is None else a if b is None else min(a, b) for a, b in pairs)
    return size, requests
