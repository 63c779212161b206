"""Order of requests: waiting readers, then readahead, then warm-up, within limits of requests and bytes. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf

from stoker_sidecar.fetcher.sources.core.bandwidth import NOBODY, BandwidthShares, Sharer
from stoker_sidecar.fetcher.sources.core.concurrency import AdaptiveLimit
from stoker_sidecar.fetcher.sources.core.waiting_line import TurnClass, WaitingLine
from stoker_sidecar.wire.fetcher_hints import WEIGHT_NORMAL

# Seconds for which a sharing of slots holds, while the limit does: it is asked for before each request.
_SLOTS_AGE = 0.2
# Requests that the background leaves free for each waiting reader. A single reader in order needs all but a few.
_KEPT_FREE = 8


class Lane(IntEnum):
    """The priority class of a request: lower goes first."""

    DEMAND = 0
    READAHEAD = 1
    WARM = 2


@dataclass(eq=False)
class QueuedRequest:
    """A request for ``size`` bytes. ``decided`` is called once: True, it may go; False, it was dropped.

    ``sharer``: the sharer of its readers. A sharer that requests much readahead takes no turns from the rest.
    ``weight``: its weight among the requests of its owner. The line sets the remaining fields.
    """

    lane: Lane
    size: int
    decided: Callable[[bool], None]
    sharer: Sharer = NOBODY
    weight: int = WEIGHT_NORMAL
    place: int = field(default=0, init=False)
    owner: str = field(init=False)
    turns: TurnClass = field(init=False)

    def __post_init__(self) -> None:
        self.owner = self.sharer.owner
        self.turns = TurnClass(self.weight, self.sharer.share)


@dataclass(frozen=True)
class Bounds:
    """Limits of requests in flight.

    ``demand``: requests that readers may always have. Bytes: in flight for readahead and warm-up together, and waiting
    or in flight for readahead alone.
    """

    # As many as a node's data loaders have workers.
    demand: int = 64
    # 16 chunks of 8 MiB fill a link of 10 Gbit/s at 100 ms; a killed process fetches as much again at most.
    background_bytes: int = 128 * 1024**2
    # 8 chunks: the first readers of a large file double their windows up to half of it.
    readahead_bytes: int = 64 * 1024**2


@dataclass
class Lanes:
    """The queue of all requests of the node.

    ``limit``: requests in flight in total, as long as readers leave room. ``shares``: decides which sharers are held
    back.
    """

    bounds: Bounds
    limit: int
    shares: BandwidthShares
    dropped: int = 0  # readahead that newer readahead pushed out before it was asked for
    _waiting: dict[Lane, WaitingLine[QueuedRequest]] = field(
        default_factory=lambda: {lane: WaitingLine() for lane in Lane}
    )
    _flying: set[QueuedRequest] = field(default_factory=set)
    _running: Counter[Lane] = field(default_factory=Counter)
    _bytes: Counter[Lane] = field(default_factory=Counter)
    _waiting_bytes: Counter[Lane] = field(default_factory=Counter)

    def ask(self, request: QueuedRequest) -> None:
        """Queue a request. Readahead beyond its budget drops the oldest waiting readahead.

        An owner with more than half of the budget drops its own.
        """
        self.shares.came(request.sharer)
        if not (self.shares.limited or self._some_wait(request.lane)) and self._fits(request):
            self._fly(request)  # as mostly: to queue it and take it out costs as much as all else here
            return
        self._waiting[request.lane].add(request)
        self._waiting_bytes[request.lane] += request.size
        if request.lane is Lane.READAHEAD:
            self._cut_readahead(request.owner)
        self.go()

    def promote(self, request: QueuedRequest, lane: Lane) -> None:
        """Note that someone else wants it too: it counts for the better of both lanes."""
        if lane >= request.lane:
            return
        waiting, flying = request in self._waiting[request.lane], request in self._flying
        self.withdraw(request)
        if flying:
            self._count(request, -1)
        request.lane = lane
        if flying:
            self._count(request, 1)
        elif waiting:
            self.ask(request)

    def done(self, request: QueuedRequest) -> None:
        """Remove a request that landed, or was canceled after its start."""
        if self.shares.limited:
            self.shares.capacity.saw(full=self.full)
        self._flying.remove(request)
        self._count(request, -1)
        self.shares.landed(request.sharer)
        self.go()

    def withdraw(self, request: QueuedRequest) -> None:
        """Remove a request that was canceled while it waited. Idempotent."""
        if self._waiting[request.lane].remove(request):
            self._waiting_bytes[request.lane] -= request.size
            self.shares.went(request.sharer)

    def go(self) -> None:
        """Start requests that may go. Call it after ``limit`` has changed."""
        if self.shares.limited:
            self.shares.count()
        while (request := self._next()) is not None:
            self._waiting[request.lane].take(request)
            self._waiting_bytes[request.lane] -= request.size
            self._fly(request)

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return len(self._flying)

    @property
    def demanded(self) -> bool:
        """Whether a reader waits."""
        return self._running[Lane.DEMAND] > 0

    @property
    def busy(self) -> bool:
        """Whether as much is in flight as may be."""
        return self.in_flight >= self.limit

    @property
    def held_back(self) -> bool:
        """Whether the limit holds requests back: all of them, or those behind waiting readers."""
        return self.busy or (self.demanded and self._background >= self._most_background)

    @property
    def full(self) -> bool:
        """Whether more is wanted than may be in flight."""
        return self.busy or any(self._waiting.values())

    def _some_wait(self, lane: Lane) -> bool:
        """Return True if requests wait that go before a new request of this lane."""
        for other, waiting in self._waiting.items():  # in the order of the lanes
            if waiting.places:
                return other <= lane
        return False

    def _fly(self, request: QueuedRequest) -> None:
        self._flying.add(request)
        self._count(request, 1)
        self.shares.started(request.sharer, request.size)
        request.decided(True)

    def _next(self) -> QueuedRequest | None:
        held = self._is_held if self.shares.limited else None
        for waiting in self._waiting.values():  # in the order of the lanes
            if waiting.places:  # before it is asked: most are empty, and this is done several times a request
                request = waiting.first(held)
                if request is not None and self._fits(request):
                    return request
        return None

    def _is_held(self, request: QueuedRequest) -> bool:
        return self.shares.holds(request.sharer)

    def _fits(self, request: QueuedRequest) -> bool:
        if request.lane is Lane.DEMAND:
            return self._running[Lane.DEMAND] < max(self.bounds.demand, self.limit)
        background = self._background
        if background == 0:  # never stopped altogether, and never for a piece that is larger than the bound
            return True
        size = self._bytes[Lane.READAHEAD] + self._bytes[Lane.WARM] + request.size
        few = background < self._most_background and self.in_flight < self.limit
        return few and size <= self.bounds.background_bytes

    @property
    def _background(self) -> int:
        return self._running[Lane.READAHEAD] + self._running[Lane.WARM]

    @property
    def _most_background(self) -> int:
        """While readers wait, each keeps some requests free, and all of them together keep half."""
        return max(self.limit // 2, self.limit - _KEPT_FREE * self._running[Lane.DEMAND])

    def _cut_readahead(self, owner: str) -> None:
        waiting = self._waiting[Lane.READAHEAD]
        size = self._bytes[Lane.READAHEAD] + self._waiting_bytes[Lane.READAHEAD]
        while len(waiting) > 1 and size > self.bounds.readahead_bytes:
            oldest = self._least_wanted(owner)
            self.withdraw(oldest)
            size -= oldest.size
            self.dropped += 1
            oldest.decided(False)

    def _least_wanted(self, owner: str) -> QueuedRequest:
        """Return the readahead to drop for this owner's new request."""
        waiting = self._waiting[Lane.READAHEAD]
        own = [request for request in waiting if request.owner == owner]
        flying = (request for request in self._flying if request.lane is Lane.READAHEAD and request.owner == owner)
        size = sum(request.size for request in own) + sum(request.size for request in flying)
        return waiting.least_wanted(owner if size > self.bounds.readahead_bytes // 2 else None)

    def _count(self, request: QueuedRequest, one: int) -> None:
        self._running[request.lane] += one
        self._bytes[request.lane] += one * request.size


@dataclass
class WarmShare:
    """A dataset that has files to fetch. ``failing``: its last request failed, so one request tries at a time.

    ``bandwidth``: maximum share of the node's bandwidth while other datasets warm. ``due``: when it must be warm, in
    seconds since the epoch; infinite without a deadline.
    """

    priority: int
    failing: bool = False
    bandwidth: float = 1.0
    due: float = inf

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key of its turn: the lowest goes first."""
        return -self.priority, self.due


def warm_slots(datasets: Mapping[str, WarmShare], total: int) -> dict[str, int]:
    """Share the node's warm-up requests among its datasets: uid -> requests in flight.

    Every dataset gets one request. Those of the highest priority with the earliest deadline share the rest. ``total``:
    the node's limit.
    """
    healthy = {uid: dataset.rank for uid, dataset in datasets.items() if not dataset.failing}
    first = {uid: datasets[uid].bandwidth for uid, rank in healthy.items() if rank == min(healthy.values())}
    parts = _divided(total - (len(datasets) - len(first)), first)
    return {uid: max(1, parts.get(uid, 1)) for uid in datasets}


def _divided(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Split equally, capped by each share. If the shares add up to less than 1, split all in proportion."""
    scale, left, parts = min(1.0, sum(shares.values())), float(total), dict[str, int]()
    for place, (uid, share) in enumerate(sorted(shares.items(), key=lambda each: each[1])):
        part = min(left / (len(shares) - place), total * share / scale)
        left -= part
        parts[uid] = int(part + 1e-9)
    return parts


@dataclass
class WarmSlots:
    """The sharing of warm-up requests that holds at the moment.

    ``warming``: by uid, the datasets that warm; theirs to change. ``clock``: seconds, monotonic.
    """

    clock: Callable[[], float]
    limit: AdaptiveLimit
    warming: dict[str, WarmShare] = field(default_factory=dict)
    _slots: dict[str, int] = field(default_factory=dict)
    _made: float = float("-inf")
    _total: int = 0

    def of(self, uid: str) -> int:
        """Return the limit of a dataset's requests in flight now."""
        now, total = self.clock(), self.limit.value
        if now - self._made >= _SLOTS_AGE or total != self._total or uid not in self._slots:
            self._slots, self._made, self._total = warm_slots(self.warming, total), now, total
        return self._slots.get(uid, 1)
