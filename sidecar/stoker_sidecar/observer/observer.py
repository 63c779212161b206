"""Looks at the watched trees within its budget, and tells the agent what was opened and which share was seen."""

import logging
import socket
from collections.abc import Callable, Sequence
from enum import Enum, auto

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.packets import Packet
from stoker_sidecar.observer.core.duty_cycle import MANY_EVENTS, SHORTEST_TICK, DutyCycle, next_tick
from stoker_sidecar.observer.watched_tree import WatchedTree, open_tree
from stoker_sidecar.wire.access_protocol import text_of

_log = logging.getLogger("stoker.observer")
# Seconds between reports where something was seen, and where nothing was: a phase is noticed a report late.
_REPORT, _QUIET_REPORT = 0.25, 5.0
# Events of one look at all trees that are parsed, at most (some 10 ms), and of one tree at least, so that no tenant's
# flood blinds it for another's.
_MOST_EVENTS, _FAIR_SHARE = 1024, 64
_IDLE = 60.0


class Marks(Enum):
    """Whether the kernel reports opened files: the agent, which may, puts marks on and off."""

    OFF = auto()
    ASKED = auto()
    ON = auto()


class Observer:
    """One connection to the agent, and the trees that it gives. One thread: ``step``, wait, ``take``.

    ``connection`` must not block. ``clock``: the monotonic one; ``cpu``: seconds of CPU that this process used ever.
    """

    def __init__(
        self, connection: socket.socket, rate: float, clock: Callable[[], float], cpu: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._cpu = cpu
        self._budget = DutyCycle(rate, clock(), cpu())
        self._trees: dict[int, WatchedTree] = {}
        self._marks = Marks.OFF
        self._tick = SHORTEST_TICK
        self._next_look = self._reported = clock()

    def step(self) -> float:
        """Do what is due, and return the seconds until more may be. Raises OSError when the agent is gone."""
        now = self._clock()
        self._budget.account(now, self._cpu())
        if not self._trees:
            return _IDLE
        wait = _IDLE
        if self._marks is Marks.OFF:
            wait = self._begin_when_rested()
        elif self._marks is Marks.ON:
            wait = self._rest_or_look(now)
        return min(wait, self._report(now))

    def take(self, packet: Packet, fds: Sequence[int]) -> None:
        """Take what the agent said. Raises ValueError for what no agent says; the descriptors are closed then."""
        match packet:
            case {"op": "watch", "watch": int(watch), "share": int() | float() as share} if len(fds) == 2:
                self._watch(watch, text_of(packet, "manifest"), float(share), *fds)
            case {"op": "unwatch", "watch": int(watch)} if not fds:
                self._unwatch(watch)
            case {"op": "marked", "on": bool(on), "cpu": int() | float() as used} if not fds:
                self._marked(on=on, used=float(used))
            case _:
                packets.close_all(fds)
                raise ValueError(f"the agent sent {packet!r:.200}, which an observer does not know")

    def close(self) -> None:
        """Close all."""
        for watch in tuple(self._trees):
            self._unwatch(watch)
        self._connection.close()

    def _watch(self, watch: int, manifest: str, share: float, group: int, table: int) -> None:
        self._unwatch(watch)
        try:
            tree = self._trees[watch] = open_tree(watch, manifest, share, group, table)
        except (SidecarError, OSError, ValueError) as error:
            _log.warning("the tree of %s is not watched: %s", manifest, error)
            return
        if self._marks is Marks.ON:
            self._budget.made(tree.begin(self._clock))

    def _unwatch(self, watch: int) -> None:
        tree = self._trees.pop(watch, None)
        if tree is not None:
            tree.close()
        if not self._trees:
            self._marks = Marks.OFF

    def _marked(self, *, on: bool, used: float) -> None:
        self._budget.charge(used)
        if not on:  # readers paid until now, for events that nobody looks at
            self._budget.made(sum(tree.forget() for tree in self._trees.values()))
            self._budget.account(self._clock(), self._cpu())
            self._budget.settle()
        if not on or self._marks is not Marks.ASKED:
            return
        self._marks, self._tick, self._reported = Marks.ON, SHORTEST_TICK, self._clock()
        self._begin_looking()

    def _begin_when_rested(self) -> float:
        rest = self._budget.rest()
        if not rest:
            self._marks = Marks.ASKED
            self._say({"op": "marks", "on": True})
            return _IDLE
        return rest

    def _rest_or_look(self, now: float) -> float:
        if self._budget.spent:
            self._marks = Marks.OFF
            self._budget.settle()
            self._say({"op": "marks", "on": False})
            self._report_all(now)  # all that was looked at, for the rest before it and none of the rest that comes
            return self._budget.rest()
        if now >= self._next_look:
            self._look()
        return max(0.0, self._next_look - now)

    def _begin_looking(self) -> None:
        """Begin anew from now on, and leave out the time since the last look."""
        self._budget.made(sum(tree.begin(self._clock) for tree in self._trees.values()))
        self._next_look = self._clock() + self._tick

    def _look(self) -> None:
        most = max(_FAIR_SHARE, _MOST_EVENTS // len(self._trees))
        events = 0
        for tree in self._trees.values():
            try:
                events += tree.look(self._clock(), most)
            except (SidecarError, OSError) as error:
                _log.warning("watch %d could not be read this time: %s", tree.watch, error)
        self._budget.made(events)
        self._tick = next_tick(self._tick, events)
        self._next_look = self._clock() + self._tick
        if events > MANY_EVENTS:  # it took so long that as much is queued again
            self._begin_looking()

    def _report(self, now: float) -> float:
        """Report when it is time; returns the seconds until it is again."""
        due = _REPORT if any(tree.waiting for tree in self._trees.values()) else _QUIET_REPORT
        left = self._reported + due - now
        if left > 0:
            return left
        self._report_all(now)
        return _REPORT

    def _report_all(self, now: float) -> None:
        self._reported = now
        for tree in self._trees.values():
            for batch in tree.report(now):
                self._say(batch.packet())

    def _say(self, packet: Packet) -> None:
        """Send a packet; one for which an agent that is busy has no room is lost. Raises OSError when it is gone."""
        try:
            packets.send(self._connection, packet)
        except BlockingIOError:
            _log.debug("the agent takes no more for now: a batch is lost")
            if packet["op"] == "marks":
                raise ConnectionError("the agent does not listen") from None
