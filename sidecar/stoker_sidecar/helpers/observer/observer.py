"""Observes the watched trees within its budget, and reports opened files and the observed share to the agent."""

import logging
import socket
from collections.abc import Callable, Sequence
from enum import Enum, auto

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.helpers.observer.core.duty_cycle import MANY_EVENTS, SHORTEST_TICK, DutyCycle, next_tick
from stoker_sidecar.helpers.observer.watched_tree import WatchedTree, open_tree
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.packets import Packet
from stoker_sidecar.wire.access_protocol import text_of

_log = logging.getLogger("stoker.observer")
# Seconds between reports with and without opens: a phase change is noticed one report late.
_REPORT, _QUIET_REPORT = 0.25, 5.0
# Maximum number of events parsed in one look at all trees (some 10 ms), and the minimum for one tree, so that one
# tenant's flood does not hide another's opens.
_MOST_EVENTS, _FAIR_SHARE = 1024, 64
_IDLE = 60.0


class Marks(Enum):
    """The state of the marks with which the kernel reports opened files. The agent, which has the right, sets them."""

    OFF = auto()
    ASKED = auto()
    ON = auto()


class Observer:
    """One connection to the agent, and its watched trees. Single-threaded: ``step``, wait, ``take``.

    ``connection`` must not block. ``clock`` is monotonic. ``cpu`` returns the total CPU seconds of this process.
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
        """Do the work that is due. Return the seconds until the next step. Raises OSError when the agent is gone."""
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
        """Process a packet of the agent. Raises ValueError for an unknown one, and then closes the descriptors."""
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
        """Close all trees and the connection."""
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
        if not on:  # until now readers paid for events that nothing reads
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
            self._report_all(now)  # everything observed so far, with the rest before it but without the coming rest
            return self._budget.rest()
        if now >= self._next_look:
            self._look()
        return max(0.0, self._next_look - now)

    def _begin_looking(self) -> None:
        """Restart observation, and exclude the time since the last look."""
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
        if events > MANY_EVENTS:  # it took so long that as many events are queued again
            self._begin_looking()

    def _report(self, now: float) -> float:
        """Send a report when it is due. Return the seconds until the next one."""
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
        """Send a packet. It is lost if a busy agent has no room for it. Raises OSError when the agent is gone."""
        try:
            packets.send(self._connection, packet)
        except BlockingIOError:
            _log.debug("the agent is busy: a batch is lost")
            if packet["op"] == "marks":
                raise ConnectionError("the agent does not listen") from None
