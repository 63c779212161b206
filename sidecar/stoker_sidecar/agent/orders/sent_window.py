"""The prefetch window that the fetcher has: the readers' progress in it, and when to send the next one. Pure."""

from itertools import islice
from typing import NamedTuple

from stoker_orders.following import OrderFollower
from stoker_orders.sample_map import SamplePiece
from stoker_sidecar.agent.orders.order_rows import PIECE_BYTES, chunks_of
from stoker_sidecar.wire.fetcher_hints import MOST_AHEAD

# Size of a window: seconds of reading, and least number of pieces. Least seconds over which a pace is measured.
_SECONDS, LEAST_WINDOW, _PACE_SECONDS = 4.0, 4096, 0.25
# Send another window when this share is past, so that each piece is sent about four times. Also send one after this
# many seconds, so that the fetcher retries failed pieces.
_PAST, _RENEW_SECONDS = 0.25, 5.0


class _Standing(NamedTuple):
    """The readers' epoch; ``found``: how often the search found their position again."""

    epoch: int | None
    found: int


class SentWindow:
    """A window that was sent at the follower's current position.

    ``pieces``: as sent; ``most``: the limit on their number. ``reads``: file reads observed so far. ``now`` in all
    methods: monotonic seconds.
    """

    def __init__(self, follower: OrderFollower, pieces: bytes, most: int, reads: float, now: float) -> None:
        self._follower = follower
        self._count, self._most = len(pieces) // PIECE_BYTES, most
        self._reads, self._at = reads, now
        self._standing, self._known = _standing(follower), len(follower.known)
        self._step = follower.step
        self._counted = _begin(follower)  # pieces before this step are counted in ``gone``
        self._last: SamplePiece | None = None
        self._last_count = 0
        self.gone = 0  # pieces that readers passed, without the current one

    def most_of_next(self, reads: float, now: float) -> int:
        """Return the size of the next window in pieces, from the pace since this one was sent."""
        pace = (reads - self._reads) / max(_PACE_SECONDS, now - self._at)
        return min(MOST_AHEAD, max(LEAST_WINDOW, int(_SECONDS * pace)))

    def move_on(self) -> bool:
        """Update ``gone``. Return True if it grew."""
        follower, before = self._follower, self.gone
        begin, known = _begin(follower), follower.known
        if _standing(follower) != self._standing or not known:
            return False
        samples, loading = known[0].samples, follower.loading
        for index in islice(loading.in_batches(self._counted), max(0, begin - self._counted) * len(loading.here)):
            piece = follower.order.map.piece(samples[index % len(samples)])
            if piece != self._last:
                self.gone += self._last_count
                self._last, self._last_count = piece, len(chunks_of(piece))
        self._counted, self.gone = max(begin, self._counted), min(self.gone, self._count)
        return self.gone > before

    def is_over(self, now: float) -> bool:
        """Return True if the next window is due.

        Reasons: readers jumped; readers are far into this window; it is some seconds old; or the order of an epoch
        beyond it is known now.
        """
        follower = self._follower
        if _standing(follower) != self._standing:
            return True
        if self._count < self._most and len(follower.known) != self._known:
            return True
        if follower.step == self._step:
            return False
        return self.gone >= _PAST * self._count or now - self._at >= _RENEW_SECONDS


def _standing(follower: OrderFollower) -> _Standing:
    return _Standing(follower.epoch, follower.found_again)


def _begin(follower: OrderFollower) -> int:
    """Return the step at which a window begins: the start of the stretch before the readers' stretch."""
    stretch = follower.loading.stretch
    return max(0, follower.step - stretch) // stretch * stretch
