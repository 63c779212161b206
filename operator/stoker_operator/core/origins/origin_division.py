"""Divide one origin's cap among the nodes that fetch. Their shares never add up to more than the cap.

A share is the cap divided by a *level*, a node count rounded up. When one node starts or stops, most shares stay. The
cost is five writes on average, for any cluster size. A share grows only after the nodes with smaller shares confirm
them.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from stoker_api.datasets.origin import OriginShare
from stoker_operator.core.origins.origin_policy import NO_CAP, Cap

# Up to this many nodes the cap is divided exactly. Above it, each level is this factor larger than the one before. At
# worst a fifth of the cap stays unused.
_EXACT, _STEP = 8, 1.25
_LEVELS: Final = 60  # the last level is about two million nodes
# After this many seconds the operator assumes that a node keeps to a lower share, even without a confirmation.
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
    """Return the level for this number of nodes. Keep ``current`` while it has room and is not far too large."""
    wanted = bisect_left(LEVELS, nodes)
    if current <= _EXACT or nodes > current:
        return LEVELS[wanted]
    return LEVELS[wanted] if wanted <= bisect_left(LEVELS, current) - 2 else current


def part_of(cap: Cap, percent: int, level: int) -> Amounts:
    """Return a share: ``percent`` hundredths of the cap, divided by the level."""
    size, requests = cap.bytes_per_second, cap.milli_requests_per_second
    return (
        None if size is None else size * percent // (100 * level),
        None if requests is None else requests * percent // (100 * level),
    )


def to_share(name: str, amounts: Amounts, beginning: Amounts = (None, None)) -> OriginShare:
    """Build the wire form of a share, with the amount that every node may use without one."""
    return OriginShare(
        name=name,
        bytes_per_second=amounts[0],
        milli_requests_per_second=amounts[1],
        beginning_bytes_per_second=beginning[0],
        beginning_milli_requests_per_second=beginning[1],
    )


@dataclass
class CapDivision:
    """The shares of one origin.

    ``percent``: the part of the cap that is divided. ``strict``: never give more than that part. ``given``: the share
    decided for each fetching node. Only ``set_cap`` changes ``cap``.
    """

    percent: int
    strict: bool = True
    cap: Cap = NO_CAP
    level: int = 1
    beginning: Amounts = (0, 0)  # what every node may use without a share
    given: dict[str, Amounts] = field(default_factory=dict)
    _fetching: dict[str, None] = field(default_factory=dict)
    # The most that each node may use, given every share that it may still act on. Then the counted amounts and their
    # sums.
    _held: dict[str, Amounts] = field(default_factory=dict)
    _counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    _sums: list[int] = field(default_factory=lambda: [0, 0])
    _stale: dict[str, None] = field(default_factory=dict)  # nodes to check
    _told: dict[str, Amounts] = field(default_factory=dict)  # shares in the NodeCaches
    # Nodes whose NodeCache has a lower share than they may still use, and since when, oldest first. Nodes that wait for
    # the write are absent: an unwritten share binds no node.
    _since: dict[str, float] = field(default_factory=dict)

    @property
    def fetching(self) -> int:
        """Number of nodes that fetch."""
        return len(self._fetching)

    @property
    def held(self) -> tuple[int, int]:
        """Bytes and thousandths of requests a second that all nodes together may use at most."""
        return self._sums[0], self._sums[1]

    @property
    def behind(self) -> bool:
        """True while a node waits for its share."""
        return bool(self._stale)

    def set_cap(self, cap: Cap) -> None:
        """Set a new cap."""
        if cap != self.cap:
            self.cap = cap
            self._stale.update(self._fetching)

    def note(self, node: str, *, fetching: bool, told: Amounts | None, confirmed: bool, now: float) -> None:
        """Record a NodeCache: whether the node fetches, which share it has, and whether the node confirmed it."""
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
            if node not in self.given and node not in self._held and not self._is_beginning(told):  # by an older leader
                self.given[node] = told
                self._hold(node, self._bounded(told))
                self._stale[node] = None
        self._count_told(node, confirmed=confirmed, now=now)

    def forget(self, node: str) -> None:
        """Remove a deleted node."""
        self._stale.pop(node, None)
        self._since.pop(node, None)
        self._told.pop(node, None)
        self.given.pop(node, None)
        self._hold(node, None)
        if node in self._fetching:
            del self._fetching[node]
            self._relevel()

    def settle_old(self, now: float) -> None:
        """Assume that nodes keep to a lower share that they got ``CONFIRM`` seconds ago."""
        waiting = self._since
        if waiting and next(reversed(waiting.values())) > now:  # the clock was set back: start the wait now
            waiting.update({node: min(since, now) for node, since in waiting.items()})
        while waiting and (node := next(iter(waiting))) and now - waiting[node] >= CONFIRM:
            self._settle(node)

    def step(self, most: int, now: float) -> set[str]:
        """Update at most ``most`` shares. Return the nodes whose NodeCache must change."""
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
                self._since[node] = now  # nothing to write, but a larger share may still be in flight
        self._stale |= waiting
        return changed

    def _count_told(self, node: str, *, confirmed: bool, now: float) -> None:
        """Count a node with the share in its NodeCache and with earlier shares that it may still use."""
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
        """Return True if a node's NodeCache has the decided share."""
        told, given = self._told.get(node), self.given.get(node)
        return told == given or (told is not None and given is None and self._is_beginning(told))

    def _is_beginning(self, told: Amounts) -> bool:
        """Return True if a share is at most what every node may begin with, now or at the previous level."""
        pairs = zip(told, self.beginning, strict=True)
        return all(most is None or (amount is not None and amount <= 2 * most) for amount, most in pairs)

    def _relevel(self) -> None:
        level = level_for(max(1, len(self._fetching)), self.level)
        if level != self.level:
            self.level = level
            self._stale.update(self._fetching)

    def _fits(self, node: str, wanted: Amounts) -> bool:
        """Return True if the sum of all shares stays within the divided part after this one."""
        if not self.strict:
            return True
        before = self._counted.get(node, (0, 0))
        after = self._count(_most(self._held.get(node, wanted), wanted))
        parts = zip(self._sums, before, after, part_of(self.cap, self.percent, 1), strict=True)
        return all(whole is None or new <= old or sum_ - old + new <= whole for sum_, old, new, whole in parts)

    def _count(self, amounts: Amounts) -> tuple[int, int]:
        """Return the amounts to count. An amount that every node may use anyway counts as zero."""
        pairs = zip(amounts, self.beginning, strict=True)
        size, requests = (0 if one is None or (least is not None and one <= least) else one for one, least in pairs)
        return size, requests

    def _bounded(self, told: Amounts) -> Amounts:
        """Replace a missing limit with the whole divided part, if there is a limit now."""
        pairs = zip(told, part_of(self.cap, self.percent, 1), strict=True)
        size, requests = (whole if amount is None else amount for amount, whole in pairs)
        return size, requests

    def _settle(self, node: str) -> None:
        """Count a node with its decided share only."""
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
    """Return the share, at least 1 of each, so that a request is possible in any cluster."""
    size, requests = (amount if amount is None else max(1, amount) for amount in goal)
    return size, requests


def _most(one: Amounts, other: Amounts) -> Amounts:
    """Return the larger of each amount. No limit is the largest."""
    pairs = zip(one, other, strict=True)
    size, requests = (None if a is None or b is None else max(a, b) for a, b in pairs)
    return size, requests


def _least(one: Amounts, other: Amounts) -> Amounts:
    pairs = zip(one, other, strict=True)
    size, requests = (b if a is None else a if b is None else min(a, b) for a, b in pairs)
    return size, requests
