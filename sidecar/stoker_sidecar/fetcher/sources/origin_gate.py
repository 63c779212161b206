"""In front of the object stores: requests wait for their turn, readers' first, at the pace that each origin takes."""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

from stoker_api.datasets.origin import ALL_ORIGINS, MOST_ORIGINS, NodeOrigin, OriginNames, OriginShare, endpoint_of
from stoker_api.times import format_time
from stoker_sidecar.errors import Throttled
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.fetcher.sources.core.origin_pace import OriginPace, to_one_digit
from stoker_sidecar.wire.fetcher_protocol import OriginCounts

# Limits of the timer in seconds. Waiting requests are checked at the longest interval, since a new share may arrive.
_SHORTEST, _LONGEST = 0.002, 1.0
# Seconds within which a second SlowDown is not reported again: a status for each would be many.
_TOLD_EVERY = 10.0


class Urgency(Protocol):
    """The urgency of a waiting request. Its lane may improve while it waits."""

    lane: Lane


@dataclass
class _Fixed:
    lane: Lane


_A_PERSON: Final = _Fixed(Lane.DEMAND)  # requests outside of downloads: listings, checksums
# The urgency of the current task's requests. Its slot in the pipeline sets it.
ON_BEHALF: ContextVar[Urgency] = ContextVar("on_behalf", default=_A_PERSON)


@dataclass(eq=False)
class _Turn:
    """One request that waits."""

    urgency: Urgency
    size: int
    paces: tuple[OriginPace, ...]
    may_go: "asyncio.Future[None]"


@dataclass
class OriginGate:
    """The gate of one node. ``clock``: seconds, monotonic, of the event loop; ``now``: seconds since 1970."""

    clock: Callable[[], float]
    now: Callable[[], float]
    _held: int = 0
    _slowdowns: int = 0
    _shares: dict[str, OriginShare] = field(default_factory=dict)
    _paces: dict[str, OriginPace] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)  # when a SlowDown was noted, seconds since 1970
    _waiting: "dict[_Turn, None]" = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    def set_shares(self, shares: Iterable[OriginShare]) -> None:
        """Set the shares in force. Origins without a share are unlimited."""
        now, old = self.clock(), self._shares
        self._shares = {share.name: share for share in shares}
        for name in old.keys() | self._shares.keys():
            self._set(name, now)
        self._look()

    async def enter(self, names: OriginNames | None, size: int) -> None:
        """Wait until a request for ``size`` bytes may go."""
        if names is None:
            return
        paces, now = self._paces_of(names), self.clock()
        for pace in paces:  # by a loop: this is passed for each file
            if pace.waiting or pace.wait(now):
                break
        else:  # waiting requests go first
            for pace in paces:
                pace.take(size, now)
            return
        turn = _Turn(ON_BEHALF.get(), size, paces, asyncio.get_running_loop().create_future())
        self._waiting[turn] = None
        for pace in paces:
            if pace.waiting or pace.wait(now):
                pace.hold(now)
            pace.waiting += 1
        self._held += 1
        self._look()
        try:
            await turn.may_go
        finally:
            self._leave(turn)

    def heard(self, names: OriginNames | None, error: BaseException) -> None:
        """Learn from how a request ended: a bucket that asks for fewer is asked for fewer from now on."""
        if names is None or not isinstance(error, Throttled):
            return
        if self._pace(names.bucket).slowed(self.clock()):
            self._slowdowns += 1
            last, now = self._told.get(names.bucket, -inf), self.now()
            if not 0.0 <= now - last < _TOLD_EVERY:  # less than nothing: the clock was set back
                self._told[names.bucket] = now

    def holds_back(self, names: OriginNames | None) -> bool:
        """Return True if a request to a source waited lately, so that its full speed was not used."""
        if names is None:
            return False
        known, now = (self._paces.get(name) for name in names.all), self.clock()
        return any(pace is not None and pace.holds_back(now) for pace in known)

    def rows(self) -> tuple[NodeOrigin, ...]:
        """Return the status rows of the buckets that are in use or were throttled lately, by name."""
        now = self.clock()
        for name in [name for name, pace in self._paces.items() if name not in self._shares and pace.idle(now)]:
            del self._paces[name]
            self._told.pop(name, None)
        known = ((name, self._paces[name]) for name in sorted(self._paces))
        rows = (self._row(name, pace, now) for name, pace in known if _is_bucket(name) and not pace.idle(now))
        return tuple(row for _, row in zip(range(MOST_ORIGINS), rows, strict=False))

    @property
    def counts(self) -> OriginCounts:
        """Counters since the start."""
        return OriginCounts(self._held, len(self._waiting), self._slowdowns)

    def _row(self, name: str, pace: OriginPace, now: float) -> NodeOrigin:
        fetching = pace.fetching(now) and self._needs_shares(name, pace, now)
        size, requests = pace.rates(now) if fetching else (0.0, 0.0)
        told = self._told.get(name)
        return NodeOrigin(
            name=name,
            fetching=fetching,
            bytes_per_second=to_one_digit(size),
            milli_requests_per_second=to_one_digit(requests * 1000),
            throttled_at=None if told is None else format_time(told),
        )

    def _needs_shares(self, name: str, pace: OriginPace, now: float) -> bool:
        """Return True if a bucket is used beyond the limit of a node without a share, under any of its caps."""
        wider = (self._paces[one] for one in (endpoint_of(name), ALL_ORIGINS) if one in self._shares)
        known = [one for one in (pace, *wider) if one.knows_beginning]
        return not known or any(one.needs_share(now) for one in known)

    def _paces_of(self, names: OriginNames) -> tuple[OriginPace, ...]:
        own = self._paces.get(names.bucket) or self._pace(names.bucket)
        if not self._shares:
            return (own,)
        return (own, *(self._paces[name] for name in names.all[1:] if name in self._shares))

    def _pace(self, name: str) -> OriginPace:
        if name not in self._paces:
            self._paces[name] = OriginPace()
        return self._paces[name]

    def _set(self, name: str, now: float) -> None:
        share = self._shares.get(name, OriginShare(name=name))
        pace = self._pace(name)
        pace.set_share(share.bytes_per_second, _whole(share.milli_requests_per_second), now)
        pace.set_beginning(share.beginning_bytes_per_second, _whole(share.beginning_milli_requests_per_second))

    def _look(self) -> None:
        """Release requests that may go: those of readers first, then in order of arrival."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, soonest, full = self.clock(), inf, set[int]()
        for turn in sorted(self._waiting, key=lambda one: one.urgency.lane):
            if not full.isdisjoint(map(id, turn.paces)):
                continue
            waits = {id(pace): wait for pace in turn.paces if (wait := pace.wait(now)) > 0}
            if waits:
                full |= waits.keys()
                soonest = min(soonest, max(waits.values()))
                continue
            for pace in turn.paces:
                pace.take(turn.size, now)
            self._leave(turn)
            if not turn.may_go.done():
                turn.may_go.set_result(None)
        if self._waiting:
            delay = max(_SHORTEST, min(_LONGEST, soonest))
            self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _leave(self, turn: _Turn) -> None:
        if turn in self._waiting:
            del self._waiting[turn]
            now = self.clock()
            for pace in turn.paces:
                pace.waiting -= 1
                pace.held = now


def _whole(milli: int | None) -> float | None:
    return None if milli is None else milli / 1000


def _is_bucket(name: str) -> bool:
    place = name.partition("://")[2]
    return bool(place) if name.startswith("s3://") else "/" in place
