"""Bodies of GETs that asked for more than one piece: they wait for whoever wants the next one (ADR 78)."""

import asyncio
from typing import NamedTuple

from stoker_sidecar.store.transport_threads import ThreadResponse

# Seconds until a body that nobody goes on with is given up, with what of it waits in buffers. Whoever takes a file
# piece by piece comes back within milliseconds, and on a machine that has too much to do within tenths.
_PATIENCE = 2.0
# Bodies that wait at once; each holds a connection, and buffers of the kernel's of some MiB. The oldest makes way.
_MOST = 64


class BodyPlace(NamedTuple):
    """Where a body goes on: at ``offset`` of the object with this ETag and version."""

    key: str
    etag: str
    version_id: str
    offset: int


class OpenBodies:
    """The bodies of one bucket that have more than was wanted, by where they go on."""

    def __init__(self) -> None:
        self._waiting: dict[BodyPlace, tuple[ThreadResponse, asyncio.TimerHandle]] = {}

    def keep(self, place: BodyPlace, response: ThreadResponse) -> None:
        """Keep a body that goes on at ``place`` for a while."""
        self._give_up(place)
        if len(self._waiting) >= _MOST:
            self._give_up(next(iter(self._waiting)))
        timer = asyncio.get_running_loop().call_later(_PATIENCE, self._give_up, place)
        self._waiting[place] = response, timer

    def take(self, place: BodyPlace, length: int) -> ThreadResponse | None:
        """Return a body whose next ``length`` bytes are those that begin at ``place``; None where there is none."""
        if place not in self._waiting:
            return None
        response, timer = self._waiting.pop(place)
        timer.cancel()
        if response.ahead < length:
            response.release()
            return None
        response.go_on(length)
        return response

    def close(self) -> None:
        """Give all of them up. Idempotent."""
        for place in list(self._waiting):
            self._give_up(place)

    def _give_up(self, place: BodyPlace) -> None:
        if place in self._waiting:
            response, timer = self._waiting.pop(place)
            timer.cancel()
            response.release()  # which closes the connection
