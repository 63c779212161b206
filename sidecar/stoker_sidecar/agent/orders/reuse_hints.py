"""Sends the fetcher reuse hints: files read in the rest of this epoch and in the next one."""

import zlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.job_order import EpochOrder, fitted
from stoker_orders.sample_map import SamplePiece
from stoker_sidecar.agent.orders.epoch_orders import EpochOrders
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.fetcher_hints import MOST_RETURNING, ReuseHints
from stoker_sidecar.wire.fetcher_protocol import Failed, Reply

TellReturning = Callable[[ReuseHints], Awaitable[Reply]]
# Updates per epoch: each one lets the fetcher evict files that were read since the last one.
_TIMES = 4
_NOW, _NEXT = 1, 2


@dataclass(frozen=True)
class _NextEpoch:
    """Number of the next epoch, and one byte per inode that marks the files it reads."""

    number: int
    marks: bytes


class ReuseHintSender:
    """Sends the files that one group reads in the rest of an epoch and in the next one. Not thread-safe.

    ``tell`` sends a message to the fetcher and raises FetcherUnavailable. ``epochs``: source of orders.
    """

    def __init__(self, tell: TellReturning, version: VersionKey, epochs: EpochOrders) -> None:
        self._tell = tell
        self._version = version
        self._epochs = epochs
        self._next: _NextEpoch | None = None
        self._told: tuple[int, int, str] | None = None  # the last hint's epoch, part of the epoch, and reader

    async def work(self, follower: OrderFollower, reader: str) -> None:
        """Send the reads until the next epoch ends, if each epoch reads a part. Raises FetcherUnavailable."""
        epoch = next((one for one in follower.known if one.number == follower.epoch), None)
        if epoch is None or not reads_another_part(follower, epoch):
            return
        turn = epoch.number, _TIMES * follower.step // max(1, follower.loading.steps), reader
        if turn == self._told:
            return
        coming = await self._marks_of_next(follower, epoch.number + 1)
        if coming is None:
            return  # a plug-in call is pending
        begin = max(0, follower.step - follower.loading.stretch)
        files = await in_thread(_packed, follower.order.pieces(epoch, begin, follower.loading), coming)
        if len(files) > MOST_RETURNING:  # too long to send: the fetcher keeps the earlier hints
            self._told = turn
            return
        reply = await self._tell(ReuseHints(*self._version, reader, files))
        if not isinstance(reply, Failed):
            self._told = turn

    async def end(self) -> None:
        """Withdraw the hints. Raises FetcherUnavailable."""
        told, self._told, self._next = self._told, None, None
        if told is not None:
            await self._tell(ReuseHints(*self._version, told[2]))

    async def _marks_of_next(self, follower: OrderFollower, number: int) -> bytes | None:
        if self._next is None or self._next.number != number:
            known = next((one for one in follower.known if one.number == number), None)
            epoch = known or await self._epochs.epoch(follower.order, number)
            if epoch is None:
                return None
            pieces = follower.order.pieces(epoch, 0, fitted(follower.loading, epoch))
            self._next = _NextEpoch(number, await in_thread(_marked, pieces, _NEXT))
        return self._next.marks


def reads_another_part(follower: OrderFollower, epoch: EpochOrder) -> bool:
    """Return True if the order is known and this node reads a different part of the files in the next epoch."""
    order, loading = follower.order, follower.loading
    part = len(loading.here) < loading.ranks or len(epoch.samples) < len(order.map)
    goes_on = epoch.number + 1 < order.plan.epochs and not order.is_same_each_epoch
    return follower.state is OrderState.KNOWN and part and goes_on and not order.map.by_offset


def _marked(pieces: Iterable[SamplePiece], mark: int) -> bytes:
    """Return one byte per inode: ``mark`` if its file is among the pieces, else 0."""
    marks = bytearray()
    for piece in pieces:
        if piece.file >= len(marks):
            marks.extend(bytes(piece.file + 1))
        marks[piece.file] = mark
    return bytes(marks).rstrip(b"\0")


def _packed(left: Iterable[SamplePiece], coming: bytes) -> bytes:
    """Combine both marks and compress them for the fetcher."""
    now = _marked(left, _NOW)
    length = max(len(now), len(coming))
    both = int.from_bytes(now.ljust(length, b"\0")) | int.from_bytes(coming.ljust(length, b"\0"))
    return zlib.compress(both.to_bytes(length), 1)
