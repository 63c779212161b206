"""Tells the event loop how far pieces have come that threads bring: seldom enough that it costs next to nothing."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

# Is told how many bytes of a piece, from its front, are on the disk. No sum: whoever brings it may begin anew.
Arrived = Callable[[int], None]

# Seconds of rest after each piece that was told of. A telling wakes this loop and the fetcher's, beside threads that
# want the interpreter too; and whoever waits for the piece gets it 4 ms later at most, half a chunk's time at 1 GB/s.
_REST = 0.004


@dataclass(eq=False)
class PieceProgress:
    """The progress of all pieces of one event loop: told at once when it has rested, else together with others'."""

    _news: dict[Arrived, tuple[Arrived, int]] = field(default_factory=dict)
    _due: bool = False  # `_tell` is going to run
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, arrived: Arrived) -> Arrived:
        """Return what a thread calls with how far a piece has come, to have this event loop call ``arrived``."""
        loop = asyncio.get_running_loop()

        def come_to(here: int) -> None:
            with self._lock:
                self._news[come_to] = arrived, here
                wake, self._due = not self._due, True
            if wake:
                loop.call_soon_threadsafe(self._tell)

        return come_to

    def end(self, come_to: Arrived) -> None:
        """Tell what was not told yet of a piece whose thread is done. To be called on the event loop."""
        with self._lock:
            left = self._news.pop(come_to, None)
        if left is not None:
            arrived, here = left
            arrived(here)

    def _tell(self) -> None:
        with self._lock:
            news, self._news = self._news, {}
            self._due = bool(news)
        for arrived, here in news.values():
            arrived(here)
        if news:
            asyncio.get_running_loop().call_later(_REST * len(news), self._tell)
