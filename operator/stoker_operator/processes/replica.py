"""One replica of the operator: health and figures always, and the leader's work while it holds the Lease."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stoker_api.node_caches.workload_totals import WorkloadTotals, workload_totals
from stoker_kube.api import Kube
from stoker_kube.lease import LeaderElection
from stoker_kube.tracing.spans import GateSpans
from stoker_operator import metrics
from stoker_operator.core.classes.tuning import ClusterTuning
from stoker_operator.core.origins.origin_policy import OriginPolicy
from stoker_operator.core.peers.peer_groups import PeerSettings
from stoker_operator.core.views import installed_names
from stoker_operator.errors import LeadershipLostError
from stoker_operator.figures.service import FiguresService
from stoker_operator.handlers.front_door import FrontDoor
from stoker_operator.mirror.state import ClusterState
from stoker_operator.processes.health import HealthServer
from stoker_operator.processes.leader import Leader, done_before
from stoker_operator.processes.lease_thread import LeaseThread
from stoker_operator.webhook.rotation import certificate_source, ensure_first, keep
from stoker_operator.writes.write_budget import RATE

LOOK_EVERY = 5.0  # seconds between two checks
MOST_BACK = 10.0  # seconds of tolerated setback; NTP's corrections between two checks are far smaller


async def until_set_back(
    wall: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> float:
    """Wait until the clock is set back by more than ``MOST_BACK`` at once; return by how many seconds.

    ``wall``: seconds since the epoch. ``steady``: seconds of a monotonic clock.
    """
    before = wall() - steady()
    while True:
        await sleep(LOOK_EVERY)
        now = wall() - steady()
        if before - now > MOST_BACK:
            return before - now
        before = now


log = logging.getLogger(__name__)

STOP_SECONDS = 6.0  # for the leader's work to end, of the 10 in which the whole process should


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """Options of a replica."""

    namespace: str  # where the operator and the sidecars run
    identity: str  # of this replica, in the Lease
    host: str | None  # None: all addresses, IPv4 and IPv6
    http_port: int
    figures_port: int | None = None  # of the API group figures.stoker.dev; None: not served
    certificate_dir: Path | None = None  # a mounted tls.crt and tls.key; None: the operator's own certificate
    tuning: ClusterTuning = field(default_factory=ClusterTuning)
    origins: OriginPolicy = field(default_factory=OriginPolicy)  # caps and prices of object stores
    peer_settings: PeerSettings = field(default_factory=PeerSettings)  # which nodes exchange files
    leaving_taints: tuple[str, ...] = ()  # taints of nodes that leave: key or key=value
    startup_taint: bool = False  # take stoker.dev/agent-not-ready off nodes whose sidecar is ready
    kueue: bool = False  # answer Kueue's AdmissionChecks that name Stoker
    writes_per_second: float = RATE  # of the leader in the long run, releases of pods left out
    spans: GateSpans | None = None  # traces of held pods


class Replica:
    """The operator's main process: runs until ``stop``; raises LeadershipLostError when it may no longer act.

    ``connect_lease()`` makes a client for the Lease alone, in the thread that renews it.
    """

    def __init__(
        self, kube: Kube, connect_lease: Callable[[], AbstractAsyncContextManager[Kube]], options: ReplicaOptions
    ) -> None:
        self._kube: Final = kube
        self._connect_lease: Final = connect_lease
        self._options: Final = options
        self._state: Final = ClusterState(
            options.namespace, options.tuning, options.leaving_taints, options.peer_settings
        )
        self._front_door: Final = FrontDoor(kube, self._state)
        self._health: Final = HealthServer(
            "operator", self._missing, options.host, options.http_port, self._workload_totals
        )
        self._figures_certified: Final = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve, wait for the Lease, lead, hand over."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._front_door.run(), name="front door")]
            if self._options.figures_port is None:
                self._figures_certified.set()
            else:
                background.append(tasks.create_task(self._serve_figures(self._options.figures_port), name="figures"))
            await self._health.start()
            stack.push_async_callback(self._health.stop)
            try:
                await self._take_part(stop)
            finally:
                for task in background:
                    task.cancel()

    async def _take_part(self, stop: asyncio.Event) -> None:
        metrics.LEADER.set(0)
        async with LeaseThread(self._connect_lease, self._elect) as lease:
            if await done_before(lease.acquire(), stop.wait()):
                metrics.LEADER.set(1)
                await self._lead(lease.lost, stop)

    def _elect(self, client: Kube) -> LeaderElection:
        options = self._options
        return LeaderElection(client, options.namespace, installed_names.LEASE, options.identity)

    async def _lead(self, lease_lost: asyncio.Event, stop: asyncio.Event) -> None:
        options = self._options
        leader = Leader(
            self._kube,
            self._state,
            startup_taint=options.startup_taint,
            origins=options.origins,
            kueue=options.kueue,
            writes_per_second=options.writes_per_second,
            spans=options.spans,
        )
        work = asyncio.create_task(leader.run(self._front_door.wait_whole, stop), name="leader")
        lost = asyncio.create_task(lease_lost.wait(), name="lease-lost")
        ended = asyncio.create_task(_grace(stop), name="stop-grace")
        set_back = asyncio.create_task(until_set_back(), name="clock")
        await asyncio.wait({work, lost, ended, set_back}, return_when=asyncio.FIRST_COMPLETED)
        for task in (lost, ended, set_back):
            task.cancel()
        if lease_lost.is_set():
            work.cancel()
            raise LeadershipLostError("the Lease was lost: another replica may act, so this process ends")
        if set_back.done() and not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=STOP_SECONDS)  # the next leader starts at once
            sentence = f"the clock was set back by {set_back.result():.0f} s, so recorded deadlines would come too late"
            raise LeadershipLostError(f"{sentence}: this process hands over and ends")
        if not work.done():
            log.warning("the leader's work did not end within %.0f s and is cut off", STOP_SECONDS)
            work.cancel()
            return
        work.result()

    async def _serve_figures(self, port: int) -> None:
        options = self._options
        figures = FiguresService(self._kube, options.namespace, options.identity, options.host, port)
        certificates = certificate_source(self._kube, options.namespace, options.certificate_dir, figures.certified)
        await ensure_first(certificates, "the figures wait for their certificate")
        self._figures_certified.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep(certificates), name="certificates")
            tasks.create_task(figures.run(), name="figures server")

    def _workload_totals(self) -> WorkloadTotals:
        totals = workload_totals(self._state.workloads())
        metrics.show_workloads(totals)
        return totals

    def _missing(self) -> str:
        if not self._front_door.whole:
            return "the Datasets are not known yet"
        return "" if self._figures_certified.is_set() else "the figures have no certificate yet"


async def _grace(stop: asyncio.Event) -> None:
    await stop.wait()
    await asyncio.sleep(STOP_SECONDS)
