"""One replica of the operator: health and webhook always, and the leader's work while it holds the Lease."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from stoker_kube.api import Kube
from stoker_kube.errors import KubeError
from stoker_kube.lease import LeaderElection
from stoker_operator import metrics
from stoker_operator.clock_watch import until_set_back
from stoker_operator.core import installed_names
from stoker_operator.core.nearness import ClusterNeighbours
from stoker_operator.core.origin_policy import OriginPolicy
from stoker_operator.core.tuning import ClusterTuning
from stoker_operator.errors import CertificateError, LeadershipLostError
from stoker_operator.front_door import FrontDoor
from stoker_operator.health import HealthServer
from stoker_operator.leader import Leader
from stoker_operator.mirror.state import ClusterState
from stoker_operator.waiting import done_before
from stoker_operator.webhook.calling_path import CallingPath
from stoker_operator.webhook.late_datasets import LateDatasets
from stoker_operator.webhook.peer_certificate import PeerCertificate
from stoker_operator.webhook.rotation import (
    CertificateSource,
    MountedCertificates,
    OwnCertificateNames,
    OwnCertificates,
    keep,
    new_tls_context,
)
from stoker_operator.webhook.server import WebhookServer
from stoker_operator.write_budget import RATE

log = logging.getLogger(__name__)

CERTIFICATE_RETRY = 2.0  # seconds: at start the API server may be as new as we are
STOP_SECONDS = 6.0  # for the leader's work to end, of the 10 in which the whole process should


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """What differs from one replica, or one installation, to another."""

    namespace: str  # where the operator and the sidecars run
    identity: str  # of this replica, in the Lease
    host: str
    http_port: int
    webhook_port: int
    certificate_dir: Path | None = None  # a mounted tls.crt and tls.key; None: certificates of our own
    reports: bool = False  # annotated pods get a way to report what they do
    tuning: ClusterTuning = field(default_factory=ClusterTuning)
    origins: OriginPolicy = field(default_factory=OriginPolicy)  # what object stores may be asked for, and cost
    neighbours: ClusterNeighbours = field(default_factory=ClusterNeighbours)  # what nodes give each other
    leaving_taints: tuple[str, ...] = ()  # what says of a node that it is about to go: key or key=value
    startup_taint: bool = False  # take stoker.dev/agent-not-ready off nodes whose sidecar is ready
    kueue: bool = False  # answer Kueue's AdmissionChecks that name Stoker
    writes_per_second: float = RATE  # of the leader in the long run, releases of pods left out


class Replica:
    """One process of the operator: runs until ``stop``; raises LeadershipLostError when it may no longer act.

    ``lease`` is a client for the Lease alone, so that no other request delays its renewal.
    """

    def __init__(self, kube: Kube, lease: Kube, options: ReplicaOptions) -> None:
        self._kube: Final = kube
        self._lease: Final = lease
        self._options: Final = options
        self._tls: Final = new_tls_context()
        self._certificates: Final = self._certificate_source()
        self._state: Final = ClusterState(options.namespace, options.tuning, options.leaving_taints, options.neighbours)
        self._front_door: Final = FrontDoor(kube, self._state)
        self._path: Final = CallingPath(kube, installed_names.WEBHOOK_CONFIGURATION)
        self._webhook: Final = WebhookServer(
            lambda: self._front_door.catalog,
            LateDatasets(kube).find,
            self._tls,
            options.host,
            options.webhook_port,
            is_called_by=self._path.is_called_by,
            reports=options.reports,
        )
        self._peers: Final = PeerCertificate(kube, options.namespace, lambda: datetime.now(UTC))
        self._health: Final = HealthServer(self._missing, options.host, options.http_port, self._state.workloads)
        self._webhook_certified: Final = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve, wait for the Lease, lead, hand over."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._front_door.run(), name="front door"),
                tasks.create_task(self._serve_webhook(), name="webhook"),
                tasks.create_task(self._keep_peers(), name="sidecars' certificate"),
                tasks.create_task(self._keep_path(), name="webhook's path"),
            ]
            await self._health.start()
            stack.push_async_callback(self._health.stop)
            stack.push_async_callback(self._webhook.stop)
            try:
                await self._take_part(stop)
            finally:
                for task in background:
                    task.cancel()

    async def _take_part(self, stop: asyncio.Event) -> None:
        options = self._options
        election = LeaderElection(self._lease, options.namespace, installed_names.LEASE, options.identity)
        metrics.LEADER.set(0)
        if not await done_before(election.acquire(), stop.wait()):
            return
        metrics.LEADER.set(1)
        try:
            await self._lead(election, stop)
        finally:
            # A lease that was lost is another's by now: release() sees that and leaves it.
            await election.release()

    async def _lead(self, election: LeaderElection, stop: asyncio.Event) -> None:
        options = self._options
        leader = Leader(
            self._kube,
            self._state,
            startup_taint=options.startup_taint,
            origins=options.origins,
            kueue=options.kueue,
            writes_per_second=options.writes_per_second,
        )
        work = asyncio.create_task(leader.run(self._front_door.wait_whole, stop), name="leader")
        lost = asyncio.create_task(election.lost.wait(), name="lease-lost")
        ended = asyncio.create_task(_grace(stop), name="stop-grace")
        set_back = asyncio.create_task(until_set_back(), name="clock")
        await asyncio.wait({work, lost, ended, set_back}, return_when=asyncio.FIRST_COMPLETED)
        for task in (lost, ended, set_back):
            task.cancel()
        if election.lost.is_set():
            work.cancel()
            raise LeadershipLostError("the Lease was lost: another replica may act, so this process ends")
        if set_back.done() and not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=STOP_SECONDS)  # who takes over begins at once
            sentence = (
                f"the clock was set back by {set_back.result():.0f} s, and what was noted by it would be waited for"
            )
            raise LeadershipLostError(f"{sentence}: this process hands over and ends")
        if not work.done():
            log.warning("the leader's work did not end within %.0f s and is cut off", STOP_SECONDS)
            work.cancel()
            return
        work.result()

    async def _keep_peers(self) -> None:
        await _first(self._peers, "the sidecars wait for their certificate")
        await keep(self._peers)

    async def _keep_path(self) -> None:
        # After there is a certificate: before it nobody can call, and an older replica may be called still.
        await self._webhook_certified.wait()
        await _first(self._path, "the webhook waits for its path")
        await keep(self._path)

    async def _serve_webhook(self) -> None:
        await _first(self._certificates, "the webhook waits for its certificate")
        self._webhook_certified.set()
        await self._webhook.start()
        await keep(self._certificates)

    def _certificate_source(self) -> CertificateSource:
        namespace = self._options.namespace
        if self._options.certificate_dir:
            return MountedCertificates(self._options.certificate_dir, self._tls)
        host = f"{installed_names.WEBHOOK_SERVICE}.{namespace}.svc"
        where = OwnCertificateNames(
            namespace,
            installed_names.WEBHOOK_SECRET,
            installed_names.WEBHOOK_CONFIGURATION,
            (host, f"{host}.cluster.local"),
        )
        return OwnCertificates(self._kube, where, self._tls, lambda: datetime.now(UTC))

    def _missing(self) -> str:
        if self._front_door.catalog is None:
            return "the Datasets are not known yet"
        return "" if self._webhook_certified.is_set() else "the webhook has no certificate yet"


async def _first(source: CertificateSource, waiting: str) -> None:
    """Ensure until it works once."""
    while True:
        try:
            return await source.ensure()
        except (KubeError, CertificateError) as error:
            log.warning("%s: %s", waiting, error)
            await asyncio.sleep(CERTIFICATE_RETRY)


async def _grace(stop: asyncio.Event) -> None:
    await stop.wait()
    await asyncio.sleep(STOP_SECONDS)
