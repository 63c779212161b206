"""The prefetch horizon of one reader: the pieces that it reads during one delay of its source. Pure.

Method: the bandwidth-delay product (RFC 7323, section 1.1), with the estimators of BBR (Cardwell et al., ACM Queue
14(5), 2016): recent delivery rate x shortest request. Counted in accesses, the product is TIP's prefetch horizon
(Patterson et al., SOSP 1995).
"""

from dataclasses import dataclass

# Each piece of a large file leaves a trace: one product is on its way, and one covers jitter.
TRACED = 2
# A reader that finds whole files here leaves no trace until the end of its window. It waits for one delay there, about
# an eighth of its time.
UNTRACED = 8
# Seconds. A source with a longer delay gets no longer window. A shorter measurement is noise.
_LEAST_DELAY, _MOST_DELAY = 0.001, 1.0
# Pieces, whatever the product. Each waiting request costs the fetcher some kilobytes.
_MOST_AHEAD = 1024
# Weight of the previous rate: a pause of the reader halves its horizon, and does not end it.
_KEPT_RATE = 0.5


@dataclass
class Horizon:
    """The horizon of one reader. ``rate``: pieces per second, 0 until the first measurement."""

    rate: float = 0.0
    _since: float | None = None
    _passed: int = 0

    def passed(self, count: int, now: float, delay: float) -> None:
        """Count pieces that the reader passed. ``now``, ``delay``: seconds; a measurement lasts at least a delay."""
        self._since = now if self._since is None else self._since
        self._passed += count
        if (elapsed := now - self._since) >= max(_LEAST_DELAY, min(delay, _MOST_DELAY)):
            self.rate = max(self._passed / elapsed, self.rate * _KEPT_RATE)
            self._since, self._passed = now, 0

    def pieces(self, delay: float, products: int) -> int:
        """Return the number of pieces to have ahead of the reader. ``products``: TRACED or UNTRACED."""
        return min(_MOST_AHEAD, int(products * self.rate * min(delay, _MOST_DELAY)))
