"""The agent's link to the report listener: says for which pods to listen, and takes what they say."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from stoker_api.backoff import Backoff
from stoker_api.nodecache import NodeMount, NodeWorkload
from stoker_sidecar.agent.core.workloads import PodReport, due_in, fair_share, reported_workloads
from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.reports_protocol import MAX_LINE, Heard, Listen, decode_heard, encode

log = logging.getLogger(__name__)
# After a change was marked, until what it led to is looked at.
LOOK_AGAIN_SECONDS = 1.0


class ReportingPods(Protocol):
    """The report volumes of this node, as far as they are needed here."""

    def all(self) -> tuple[ReportVolume, ...]:
        """Return every report volume."""


class ReportedWorkloads:
    """What the node's pods have reported, and what of it the node says now.

    ``mounts`` gives what pods have mounted; ``clock`` counts seconds, ``wall`` those since the epoch.
    """

    def __init__(
        self,
        volumes: ReportingPods,
        mounts: Callable[[], Sequence[NodeMount]],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._volumes = volumes
        self._mounts = mounts
        self._clock = clock
        self._wall = wall
        self._reports: dict[str, PodReport] = {}
        self._shown: tuple[NodeWorkload, ...] = ()
        self._shown_at = float("-inf")

    def take(self, heard: Heard) -> None:
        """Take what pods have said; who is no pod of this node is left out."""
        known = {volume.pod_uid for volume in self._volumes.all()}
        now = self._wall()
        self._reports = {uid: report for uid, report in self._reports.items() if uid in known}
        self._reports |= {uid: PodReport(summary, now) for uid, summary in heard.pods.items() if uid in known}

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return what the node says: what is new, or what it said before while it is too early for that."""
        rows, due = self._now()
        if due is not None and due <= 0:
            self._shown, self._shown_at = rows, self._clock()
        return self._shown

    def due_in(self) -> float | None:
        """Return the seconds until ``rows`` will say something else; None: not before something is said."""
        return self._now()[1]

    def _now(self) -> tuple[tuple[NodeWorkload, ...], float | None]:
        rows = fair_share(reported_workloads(self._volumes.all(), self._mounts(), self._reports))
        return rows, due_in(self._shown, rows, self._clock() - self._shown_at)


class ReportLink:
    """Keeps the listener told which pods there are, and what it hears in ``workloads``.

    ``changes`` is that of the volumes; it is marked whenever the node has something else to say.
    """

    def __init__(
        self,
        socket: Path,
        volumes: ReportingPods,
        workloads: ReportedWorkloads,
        changes: Changes,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._socket = socket
        self._volumes = volumes
        self._workloads = workloads
        self._changes = changes
        self._heard = Changes()  # of its own: most of what is said is not worth that the whole agent looks about
        self._sleep = sleep
        self._backoff = Backoff(first=0.2, cap=5.0)

    async def run(self) -> None:
        """Connect again and again, until cancelled."""
        telling = asyncio.create_task(self._tell_when_due())
        try:
            while True:
                try:
                    await self._converse()
                except (OSError, ValueError, ProtocolError) as error:  # ValueError: a line beyond the stream's limit
                    log.debug("the report listener is not there: %s", error)
                await self._sleep(self._backoff.next())
        finally:
            telling.cancel()

    async def _converse(self) -> None:
        reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MAX_LINE)
        naming = asyncio.create_task(self._name_pods(writer))
        try:
            self._backoff.reset()
            while line := await reader.readline():
                self._workloads.take(decode_heard(line))
                self._heard.mark()
        finally:
            naming.cancel()
            writer.close()

    async def _name_pods(self, writer: asyncio.StreamWriter) -> None:
        named: tuple[str, ...] | None = None
        while True:
            token = self._changes.token()
            pods = tuple(sorted({volume.pod_uid for volume in self._volumes.all()}))
            if pods != named:
                named = pods
                writer.write(encode(Listen(pods)))
                await writer.drain()
            await self._changes.wait(token)

    async def _tell_when_due(self) -> None:
        """Mark a change when there is something to say and it is time for it."""
        while True:
            token = self._heard.token()
            due = self._workloads.due_in()
            if due is not None and due <= 0:
                self._changes.mark()
                due = LOOK_AGAIN_SECONDS
            await self._heard.wait(token, due)
