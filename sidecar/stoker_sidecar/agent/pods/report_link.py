"""The agent's link to the report listener: sends it the pods to listen for, and receives their reports."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from stoker_api.backoff import Backoff
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_sidecar.agent.core.workload_rows import PodReport, reported_workloads
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder, reported_order
from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.reports_protocol import MAX_LINE, Heard, Listen, decode_heard, encode
from stoker_tuning.reports.figures import ReportSummary

log = logging.getLogger(__name__)
# Pods without volumes with kept reports, from which their accounts take the last figures.
MOST_LEFT = 64


class ReportingPods(Protocol):
    """The report volumes of this node, as this module needs them."""

    def all(self) -> tuple[ReportVolume, ...]:
        """Return every report volume."""


class ReportedWorkloads:
    """The reports of the node's pods.

    ``mounts`` returns the mounts of pods. ``wall`` counts seconds since the epoch. ``on_orders`` gets the reported
    orders, by UID.
    """

    def __init__(
        self,
        volumes: ReportingPods,
        mounts: Callable[[], Sequence[NodeMount]],
        wall: Callable[[], float] = time.time,
        on_orders: Callable[[Mapping[str, ReportedOrder]], None] = lambda orders: None,
    ) -> None:
        self._volumes = volumes
        self._mounts = mounts
        self._wall = wall
        self._on_orders = on_orders
        self._reports: dict[str, PodReport] = {}

    def take(self, heard: Heard) -> None:
        """Process reports of this node's pods, including last ones of pods whose report volume is unmounted."""
        there = {volume.pod_uid for volume in self._volumes.all()}
        left = [uid for uid in self._reports if uid not in there]
        for uid in left[:-MOST_LEFT]:
            del self._reports[uid]
        now, known = self._wall(), there | self._reports.keys()
        self._reports |= {uid: PodReport(summary, now) for uid, summary in heard.pods.items() if uid in known}
        orders = {uid: reported_order(report.summary) for uid, report in self._reports.items() if uid in there}
        self._on_orders({uid: order for uid, order in orders.items() if order is not None})

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return a row for each pod that has reported, until its last volume is unmounted."""
        return reported_workloads(self._volumes.all(), self._mounts(), self._reports)

    def summaries(self) -> dict[str, ReportSummary]:
        """Return the reports by UID, including those of pods that have just ended."""
        return {uid: report.summary for uid, report in self._reports.items()}


class ReportLink:
    """Sends the list of pods to the listener, and stores received reports in ``workloads``.

    ``changes`` is that of the volumes. ``news`` is marked when reports arrive.
    """

    def __init__(
        self,
        socket: Path,
        volumes: ReportingPods,
        workloads: ReportedWorkloads,
        changes: Changes,
        news: Changes,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._socket = socket
        self._volumes = volumes
        self._workloads = workloads
        self._changes = changes
        self._news = news
        self._sleep = sleep
        self._backoff = Backoff(first=0.2, cap=5.0)

    async def run(self) -> None:
        """Connect and reconnect, until cancelled."""
        while True:
            try:
                await self._converse()
            except (OSError, ValueError, ProtocolError) as error:  # ValueError: a line beyond the stream's limit
                log.debug("the report listener is not there: %s", error)
            await self._sleep(self._backoff.next())

    async def _converse(self) -> None:
        reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MAX_LINE)
        naming = asyncio.create_task(self._name_pods(writer))
        try:
            self._backoff.reset()
            while line := await reader.readline():
                self._workloads.take(decode_heard(line))
                self._news.mark()
        finally:
            naming.cancel()
            writer.close()

    async def _name_pods(self, writer: asyncio.StreamWriter) -> None:
        named: dict[str, str] | None = None
        while True:
            token = self._changes.token()
            pods = {volume.pod_uid: volume.namespace for volume in self._volumes.all()}
            if pods != named:
                named = pods
                uids = sorted(pods)
                writer.write(encode(Listen(tuple(uids), tuple(pods[uid] for uid in uids))))
                await writer.drain()
            await self._changes.wait(token)
