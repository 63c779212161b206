"""Listens to the beats of one running child, and says when it is ready and when it has been silent for too long."""

import asyncio
from collections.abc import Callable

from stoker_sidecar.keeper.restarts import Policy, Silence
from stoker_sidecar.wire.heartbeat import Line

_TICK = 1.0


class Pulse:
    """From ``begin`` to ``end``. ``on_ready`` is called at the first beat, ``on_silence`` at most once."""

    def __init__(self, policy: Policy, on_ready: Callable[[], None], on_silence: Callable[[], None]) -> None:
        self.line = Line()
        self._policy = policy
        self._on_ready = on_ready
        self._on_silence = on_silence
        self._silence = Silence()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The child was started and has inherited its end."""
        self.line.inherited()
        loop = asyncio.get_running_loop()
        loop.add_reader(self.line.fileno(), self._heard)
        self._timer = loop.call_later(_TICK, self._tick)

    def _heard(self) -> None:
        if not self.line.heard():
            asyncio.get_running_loop().remove_reader(self.line.fileno())
            return
        first = not self._silence.has_beaten
        self._silence = self._silence.heard()
        if first:
            self._on_ready()

    def _tick(self) -> None:
        self._silence = self._silence.tick()
        if self._silence.is_hung(self._policy):
            self._on_silence()
        else:
            self._timer = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def end(self) -> None:
        """Listen no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self.line.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.line.fileno())
        self.line.close()
