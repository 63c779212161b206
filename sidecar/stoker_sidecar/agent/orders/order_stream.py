"""Upcoming reads of an order from a given step on, across epochs, as numbered pieces. Pure."""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

from stoker_orders.job_order import EpochOrder, JobOrder, fitted
from stoker_orders.loader_schedule import Loading
from stoker_orders.sample_map import SamplePiece

PIECE = struct.Struct("<IIQ")  # the inode, the length or 0 for all, the offset
# Samples between two marks.
_STRIDE = 256


class OrderStream:
    """Pieces in the order of reading, numbered from 0. ``step``: of the first one, counted over all epochs.

    ``wanted`` is the epoch that it needs next; pass its order to ``give``. ``take`` returns the next pieces; ``forget``
    drops past ones. ``in_batches``: loaders read their batches in turn, not all at the same time.
    """

    def __init__(self, order: JobOrder, loading: Loading, step: int, *, in_batches: bool = False) -> None:
        self._order = order
        self._in_batches = in_batches
        self._loading = loading
        self._epoch, within = divmod(max(0, step), loading.steps)
        self._within = within // loading.stretch * loading.stretch  # where ``Loading.indices`` begins
        self._orders: dict[int, EpochOrder] = {}
        self._coming: Iterator[int] | None = None
        self._last: SamplePiece | None = None
        self._here = max(1, len(loading.here))
        self._gone = 0  # samples of this epoch, since ``_within``
        self.number = 0  # of the next piece
        # Pairs of a step and the number of the piece that starts there.
        self._marks: deque[tuple[float, int]] = deque([(self.step, 0)])

    @property
    def step(self) -> float:
        """Step of the next piece, over all epochs."""
        return self._epoch * self._loading.steps + self._within + self._gone / self._here

    @property
    def ended(self) -> bool:
        """Whether the stream is past the last epoch."""
        return self._epoch >= self._order.plan.epochs

    @property
    def wanted(self) -> int | None:
        """Number of the epoch whose order ``take`` needs next; None if it needs none."""
        return None if self.ended or self._epoch in self._orders else self._epoch

    def give(self, epoch: EpochOrder) -> None:
        """Take an epoch's order."""
        self._orders = {epoch.number: epoch}
        loading = fitted(self._loading, epoch)
        self._coming = (loading.in_batches if self._in_batches else loading.indices)(self._within)

    def take(self, most: int) -> bytes:
        """Return up to ``most`` next pieces in the fetcher's format; stops at the end of the epoch."""
        epoch, packed = self._orders.get(self._epoch), bytearray()
        if epoch is None or self._coming is None:
            return b""
        count, first = len(epoch.samples), self.number
        for index in self._coming:
            piece = self._order.map.piece(epoch.samples[index % count])
            self._gone += 1
            if piece != self._last:
                packed += PIECE.pack(piece.file, piece.length, piece.offset)
                self._last, self.number = piece, self.number + 1
            if not self._gone % _STRIDE:
                self._marks.append((self.step, self.number))
            if self.number - first >= most:
                break
        else:
            self._next_epoch()
        self._marks.append((self.step, self.number))
        return bytes(packed)

    def number_at(self, step: float) -> float:
        """Return the number of the piece at a step, interpolated between marks; clamped to the remembered range."""
        at = bisect_right(self._marks, step, key=lambda mark: mark[0])
        if not at:
            return self._marks[0][1]
        if at == len(self._marks):
            return self._marks[-1][1]
        (begin, first), (end, last) = self._marks[at - 1], self._marks[at]
        return first + (last - first) * (step - begin) / (end - begin)

    def step_at(self, number: float) -> float | None:
        """Return the step of a taken piece, interpolated between marks; None for a forgotten piece."""
        at = bisect_right(self._marks, number, key=lambda mark: mark[1])
        if not at:
            return None
        if at == len(self._marks):
            return self._marks[-1][0]
        (begin, first), (end, last) = self._marks[at - 1], self._marks[at]
        return begin + (end - begin) * (number - first) / (last - first)

    def forget(self, step: float) -> None:
        """Drop the marks before a step."""
        while len(self._marks) > 1 and self._marks[1][0] <= step:
            self._marks.popleft()

    def _next_epoch(self) -> None:
        same = self._orders[self._epoch] if self._order.is_same_each_epoch else None
        self._epoch, self._within, self._gone, self._last = self._epoch + 1, 0, 0, None
        self._orders, self._coming = {}, None
        if same is not None and not self.ended:
            self.give(same.numbered(self._epoch))
