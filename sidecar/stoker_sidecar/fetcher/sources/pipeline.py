"""The node's queue in front of all sources: the order of requests, and the limit in flight."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from stoker_sidecar.errors import EndpointUnreachable, NotWanted, ServerError, Throttled
from stoker_sidecar.fetcher.sources.core.bandwidth import NOBODY, BandwidthShares, Sharer
from stoker_sidecar.fetcher.sources.core.concurrency import AdaptiveLimit
from stoker_sidecar.fetcher.sources.core.lanes import Bounds, Lane, Lanes, QueuedRequest
from stoker_sidecar.fetcher.sources.origin_gate import ON_BEHALF
from stoker_sidecar.wire.fetcher_hints import WEIGHT_NORMAL

# Errors of a source, or of the path to it, under overload.
_CONGESTION = (Throttled, ServerError, EndpointUnreachable)


@dataclass
class Pipeline:
    """All requests of the node for pieces, waiting and in flight. ``clock``: seconds, monotonic."""

    clock: Callable[[], float]
    bounds: Bounds = field(default_factory=Bounds)
    limit: AdaptiveLimit = field(default_factory=AdaptiveLimit)
    lanes: Lanes = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = Lanes(self.bounds, self.limit.value, BandwidthShares(self.clock))

    def slot(self, lane: Lane, size: int, sharer: Sharer = NOBODY, weight: int = WEIGHT_NORMAL) -> "Slot":
        """Make a slot for one piece of ``size`` bytes, and for each attempt at it.

        ``sharer``: the sharer of its readers.
        """
        return Slot(self, lane, size, sharer, weight)

    def arrived(self, size: int) -> None:
        """Count bytes from a source."""
        self.lanes.shares.arrived(size)

    def landed(self, size: int, error: BaseException | None, *, busy: bool) -> None:
        """Adapt the limit to the result of a request.

        ``busy``: the limit held requests back until now.
        """
        if error is None:
            self.limit.completed(size, self.clock(), busy=busy)
        elif isinstance(error, _CONGESTION):
            self.limit.congested(self.clock())
        if self.lanes.limit != self.limit.value:
            self.lanes.limit = self.limit.value
            self.lanes.go()


class Slot:
    """A place in the pipeline, as an asynchronous context manager: inside it, the request may be made.

    Entering raises NotWanted when the request was dropped instead.
    """

    def __init__(self, pipeline: Pipeline, lane: Lane, size: int, sharer: Sharer, weight: int) -> None:
        self._pipeline = pipeline
        self._request = QueuedRequest(lane, size, self._decided, sharer, weight)
        self._wanted: bool | None = None  # until it is decided
        self._waiter: asyncio.Future[None] | None = None

    def wanted_by(self, lane: Lane) -> None:
        """Move up: someone else waits for the same piece, in this lane."""
        self._pipeline.lanes.promote(self._request, lane)

    async def __aenter__(self) -> None:
        self._wanted = None
        self._pipeline.lanes.ask(self._request)
        if self._wanted is None:  # mostly it is decided at once, and then a future would cost a turn of the event loop
            await self._decision()
        if not self._wanted:
            raise NotWanted("newer readahead took its place")
        ON_BEHALF.set(self._request)  # for this task: requests to an origin use this lane

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        busy = self._pipeline.lanes.held_back
        self._pipeline.lanes.done(self._request)
        self._pipeline.landed(self._request.size, error, busy=busy)

    def _decided(self, wanted: bool) -> None:
        self._wanted = wanted
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _decision(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self._give_up()
            raise

    def _give_up(self) -> None:
        if self._wanted:
            self._pipeline.lanes.done(self._request)
        else:
            self._pipeline.lanes.withdraw(self._request)
