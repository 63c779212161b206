"""The window of an order that a fetcher was told last: how far readers are in it, and when to tell another. Pure."""

from itertools import islice
from typing import NamedTuple

from stoker_orders.following import OrderFollower
from stoker_orders.sample_map import SamplePiece
from stoker_sidecar.agent.core.order_rows import PIECE_BYTES, chunks_of
from stoker_sidecar.wire.fetcher_protocol import MOST_AHEAD

# Pieces of a window: what is read in so many seconds, and at least. Seconds from which on a pace is one.
_SECONDS, LEAST_WINDOW, _PACE_SECONDS = 4.0, 4096, 0.25
# Another window is told when this share of it is past, so that each piece is told some four times however often is
# looked; and after so many seconds, since what could not be fetched is tried again then.
_PAST, _RENEW_SECONDS = 0.25, 5.0


class _Standing(NamedTuple):
    """In which epoch readers are; ``found``: times that their place was found anew."""

    epoch: int | None
    found: int


class ToldWindow:
    """A window as it was told when a follower stood where it stands now.

    ``pieces``: as they were told; ``most``: how many there might have been. ``reads``: files that were seen to be read
    so far. ``now`` everywhere: seconds of the monotonic clock.
    """

    def __init__(self, follower: OrderFollower, pieces: bytes, most: int, reads: float, now: float) -> None:
        self._follower = follower
        self._count, self._most = len(pieces) // PIECE_BYTES, most
        self._reads, self._at = reads, now
        self._standing, self._known = _standing(follower), len(follower.known)
        self._step = follower.step
        self._counted = _begin(follower)  # the step up to which is known what is past
        self._last: SamplePiece | None = None
        self._last_count = 0
        self.gone = 0  # pieces that readers have gone past, without the one that they may be in

    def most_of_next(self, reads: float, now: float) -> int:
        """Return how many pieces the next window should have, by the pace since this one was told."""
        pace = (reads - self._reads) / max(_PACE_SECONDS, now - self._at)
        return min(MOST_AHEAD, max(LEAST_WINDOW, int(_SECONDS * pace)))

    def move_on(self) -> bool:
        """Count what is past by now; returns whether that is more than before."""
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
        """Tell whether another one is to be told, by what is known to be past.

        Readers are elsewhere, or far in it, or it is some seconds old; or the order of an epoch is known that it lacks.
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
    """Return the step at which a window begins: what is read at the same time is behind where readers are."""
    stretch = follower.loading.stretch
    return max(0, follower.step - stretch) // stretch * stretch
