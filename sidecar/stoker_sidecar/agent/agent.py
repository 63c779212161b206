"""The agent: runs the parts that talk to Kubernetes, the kubelet, the fetcher and the keeper side by side."""

import asyncio
import logging
import os
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import ENOENT, ENOTDIR
from pathlib import Path

from stoker_api.node_answer import NodeAnswer
from stoker_api.node_storage import CacheFolder
from stoker_api.nodecache import NodeCacheStatus
from stoker_api.times import format_time
from stoker_kube.api import Kube
from stoker_sidecar.agent.core.grants import NodeGrants
from stoker_sidecar.agent.core.hardware_status import node_hardware
from stoker_sidecar.agent.core.hinted_rows import hints_of_pods
from stoker_sidecar.agent.core.status import DiskFigures, Facts, dataset_rows, node_status, steady, steady_folders
from stoker_sidecar.agent.core.uploads import UploadLimits
from stoker_sidecar.agent.credentials import CredentialReader
from stoker_sidecar.agent.csi.driver import Driver, RegistrationService, serve_driver
from stoker_sidecar.agent.fetcher_link import FetcherLink
from stoker_sidecar.agent.http import NodeHttp, serve_http
from stoker_sidecar.agent.learning_metrics import LearningCollector
from stoker_sidecar.agent.metrics import AgentMetrics
from stoker_sidecar.agent.node_account import NodeAccount
from stoker_sidecar.agent.node_cache import NoticeTeller, StatusWriter, follow_node_cache
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_sidecar.agent.node_orders import NodeOrders
from stoker_sidecar.agent.node_page import NodePage
from stoker_sidecar.agent.node_plugins import NodePlugins
from stoker_sidecar.agent.node_rules import NodeRules
from stoker_sidecar.agent.node_workloads import NodeWorkloads
from stoker_sidecar.agent.observation import Observation
from stoker_sidecar.agent.observation_metrics import ObservationCollector
from stoker_sidecar.agent.order_plugins import OrderPlugins
from stoker_sidecar.agent.peer_files import PeerFiles
from stoker_sidecar.agent.peer_metrics import PeerCollector
from stoker_sidecar.agent.peers import PeerServer
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.plugin_metrics import OrderPluginCollector, PluginCollector
from stoker_sidecar.agent.pod_accounts import AccountSources, PodAccounts
from stoker_sidecar.agent.report_link import ReportedWorkloads, ReportLink
from stoker_sidecar.agent.reported_orders import ReportedOrders
from stoker_sidecar.agent.tuning_history import TuningHistory
from stoker_sidecar.agent.tuning_http import TuningHttp
from stoker_sidecar.agent.tuning_profiles import TuningProfiles
from stoker_sidecar.agent.warm_teller import WarmTeller
from stoker_sidecar.linux.hardware import Machine
from stoker_sidecar.tuning.machine_facts import MachineFacts
from stoker_sidecar.volumes.node_volumes import NodeVolumes
from stoker_sidecar.volumes.report_volumes import ReportVolumes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

log = logging.getLogger(__name__)
# Seconds without the fetcher before it is said aloud: the keeper starts it again within one or two.
FETCHER_GRACE = 10.0


class CacheRootKeeper:
    """Makes a cache folder again that someone deleted: the fetcher, which uses it, has no right to where it lay.

    ``owner_of``: a file of the fetcher's, whose owner the folder gets.
    """

    def __init__(self, plan: NodePlan, owner_of: Path) -> None:
        self._plan = plan
        self._owner_of = owner_of

    async def run(self) -> None:
        """Restore missing folders at every change, until cancelled.

        The fetcher tries a folder that is out of service again within a minute.
        """
        while True:
            token = self._plan.changes.token()
            await asyncio.to_thread(restore_missing, self._plan.folders, self._owner_of)
            await self._plan.changes.wait(token)


def restore_missing(folders: Iterable[CacheFolder], owner_of: Path) -> None:
    """Make the folders that are out of service since they are not there. Blocks.

    One whose disk does not even say whether it is there is left to the fetcher, which reports it.
    """
    for folder in folders:
        path = Path(folder.path)
        if folder.healthy or not _is_missing(path):
            continue
        try:
            owner = owner_of.stat()
            path.mkdir(mode=0o700, parents=True)
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
        except OSError as error:
            log.warning("the cache folder %s was deleted and cannot be made again: %s", path, error)
        else:
            log.warning("the cache folder %s was deleted, and is made again", path)


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno in (ENOENT, ENOTDIR)
    return False


@dataclass(frozen=True)
class AgentPlaces:
    """Where an agent is reached, and where it finds and keeps what is its own.

    ``address``: of the pod, where other nodes fetch manifests; empty: nobody can. ``http_port``: of health and metrics;
    ``peer_port``: of manifests and files; ``learning_port``: of what names pods and Datasets, on the loopback address.
    ``run_dir``: of the sockets; ``history``: the file of what was tuned; ``accounts``: that of what pods had.
    ``namespace``: where Stoker is installed, beside which the node's account is; empty: credentials are read in the
    agent's own name, and no node is served. ``uploads``: what other nodes are given.
    """

    address: str
    http_port: int
    peer_port: int
    learning_port: int
    run_dir: Path
    history: Path
    accounts: Path
    namespace: str = ""
    uploads: UploadLimits = field(default_factory=UploadLimits)

    @property
    def fetcher_socket(self) -> Path:
        """Return the fetcher's socket."""
        return self.run_dir / "fetcher.sock"


class Agent:
    """One node's agent: its parts, run side by side, and what it says of itself to the API server and to probes.

    ``plan`` and ``folders`` are those of ``volumes`` too. ``reports``: in which pods say what they do.
    ``grants``: what Datasets of which namespaces may use of the node's own.
    ``confinement``: what holds the node's fetcher and FUSE servers to their files, for people. ``observation``: what
    is seen of reads. ``plugins``: framework plug-ins that may be asked; None: none. ``order_plugins``: the same of
    orders. ``machine``: what the node has.
    """

    def __init__(
        self,
        driver: Driver,
        kube: Kube,
        plan: NodePlan,
        folders: CacheFolders,
        volumes: NodeVolumes,
        reports: ReportVolumes,
        places: AgentPlaces,
        *,
        grants: NodeGrants,
        observation: Observation,
        confinement: str = "",
        plugins: NodePlugins | None = None,
        order_plugins: OrderPlugins | None = None,
        machine: Machine = Machine(),  # noqa: B008 -- frozen
    ) -> None:
        self._driver, self._kube = driver, kube
        self._plan, self._folders = plan, folders
        self._volumes = volumes
        self._publisher = volumes.publisher
        self._reports, self._observation = reports, observation
        said = ReportedOrders(plan.changes.mark)
        self._reported = ReportedWorkloads(reports, self._publisher.rows, on_orders=said.take)
        self._learning = NodeLearning(TuningHistory(places.history), observation.news)
        self._workloads = self._make_workloads()
        self._plugins = plugins
        self._link = FetcherLink(places.fetcher_socket, plan, self._publisher.held_versions)
        self._order_plugins = asked = order_plugins or OrderPlugins()
        self._orders = NodeOrders(volumes.mounted.all, folders, self._link.ask, plan.changes, said, asked)
        observation.workloads.on_reads = self._orders.take
        self._warm_teller = WarmTeller(reports, volumes.mounted.all, folders, reports.root)
        self._profiles = TuningProfiles(kube, plan, plugins.documents if plugins is not None else lambda: ())
        self._machine = MachineFacts(machine, lambda: plan.disk.capacity)
        self._tuning_http = TuningHttp(
            self._learning, self._workloads.known, self._profiles.rules, node_hardware(machine)
        )
        self._places = places
        self._grants = grants
        self._account = NodeAccount(kube, places.namespace, driver.node_name, time.monotonic, lambda: datetime.now(UTC))
        self._confinement = confinement
        self._peer_files = PeerFiles(plan, folders, self._link.ask, places.uploads)
        self._metrics = self._make_metrics()
        self._rules = self._make_rules()
        self._accounts = PodAccounts(places.accounts, plan, self._account_sources())
        self._registration: RegistrationService | None = None

    def _make_workloads(self) -> NodeWorkloads:
        seen = self._observation
        return NodeWorkloads(
            self._reported.rows,
            lambda: seen.rows,
            seen.news,
            self._plan.changes,
            tuned=lambda row: self._orders.shown(self._learning.shown(row)),
            hints=lambda: hints_of_pods(self._volumes.mounted.all(), self._reports.all()),
            files=seen.frameworks_by_files,
        )

    def _make_rules(self) -> NodeRules:
        return NodeRules(
            self._profiles,
            self._learning,
            self._plan,
            self._folders,
            self._volumes,
            workloads=self._workloads.known,
            reads=self._observation.workloads.read_count,
            system=self._machine.system,
        )

    def _make_metrics(self) -> AgentMetrics:
        collectors = [
            ObservationCollector(self._plan, self._observation),
            LearningCollector(self._learning, self._workloads.known),
            OrderPluginCollector(self._order_plugins),
            PeerCollector(self._plan, self._peer_files),
        ]
        collectors += [] if self._plugins is None else [PluginCollector(self._plugins)]
        return AgentMetrics(self._plan, self._publisher.rows, *collectors)

    def _account_sources(self) -> AccountSources:
        return AccountSources(
            mounted=self._volumes.mounted.all,
            reported=self._reported.rows,
            seen=lambda: self._observation.workloads.stalls,
            opened=self._observation.workloads.opened,
            rates=self._rules.acting.rates.known,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until ``stopping`` is set, then stop within about 3 s. A part that fails ends it with that error.

        Raises OSError when a socket or port cannot be had.
        """
        async with AsyncExitStack() as stack:
            http = NodeHttp(self._folders, self._not_ready, self._metrics.render, self._tuning_http.metrics)
            await stack.enter_async_context(serve_http(http.application(), self._places.http_port))
            own = self._tuning_http.application()
            NodePage(self._answer).add_to(own)
            await stack.enter_async_context(serve_http(own, self._places.learning_port, "127.0.0.1"))
            self._registration = await stack.enter_async_context(
                serve_driver(
                    self._driver,
                    self._publisher,
                    self._reports,
                    lambda: self._plan.synced,
                    self._metrics.observe_call,
                )
            )
            name, csi_socket = self._driver.node_name, self._driver.csi_socket
            log.info("serving node %s: HTTP on port %d, CSI on %s", name, self._places.http_port, csi_socket)
            await self._side_by_side(stopping, http)

    async def _side_by_side(self, stopping: asyncio.Event, http: NodeHttp) -> None:
        name, places = self._driver.node_name, self._places
        for_peers = http.for_peers()
        self._peer_files.add_to(for_peers)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(part)
                for part in (
                    follow_node_cache(self._kube, name, self._plan),
                    self._link.run(),
                    self._orders.run(),
                    self._warm_teller.run(),
                    CredentialReader(self._account, self._plan, self._grants).run(),
                    StatusWriter(
                        self._kube, name, self._plan.changes, self._status, pace=lambda: self._plan.report_seconds
                    ).run(),
                    NoticeTeller(self._kube, name, self._plan).run(),
                    CacheRootKeeper(self._plan, self._places.fetcher_socket).run(),
                    self._report_link().run(),
                    self._workloads.run(),
                    self._accounts.run(),
                    PeerServer(self._kube, places.namespace, for_peers, places.peer_port, places.run_dir).run(),
                    self._keep_mounts(),
                    self._observation.run(),
                    self._learning.run(self._workloads.known, self._observation.workloads.opened),
                    self._rules.run(),
                    *([] if self._plugins is None else [self._plugins.run()]),
                    self._order_plugins.run(),
                )
            ]
            await stopping.wait()
            for task in running:
                task.cancel()

    def _report_link(self) -> ReportLink:
        socket, news = self._places.run_dir / "reports.sock", self._observation.news
        return ReportLink(socket, self._reports, self._reported, self._plan.changes, news)

    async def _keep_mounts(self) -> None:
        await self._volumes.mounted.restore()
        await self._reports.restore()
        await self._accounts.begin()
        await self._volumes.keep()

    def _status(self, written: NodeCacheStatus | None) -> NodeCacheStatus | None:
        if self._plan.generation is None:
            return None
        return node_status(self._facts(written), written.conditions if written else self._plan.conditions)

    def _answer(self) -> NodeAnswer:
        """Return what the node knows without the bounds of its status."""
        facts, name = self._facts(None), self._driver.node_name
        return NodeAnswer(
            node=name,
            sidecar_version=facts.version,
            trouble=facts.trouble,
            capacity_bytes=facts.disk.capacity,
            used_bytes=facts.disk.used,
            available_bytes=facts.disk.available,
            datasets=dataset_rows(facts),
            mounts=facts.mounts,
            workloads=self._workloads.everything(),
            ended=facts.ended,
            ended_left_out=facts.ended_left_out,
        )

    def _facts(self, written: NodeCacheStatus | None) -> Facts:
        plan = self._plan
        return Facts(
            generation=plan.generation or 0,
            plan=plan.datasets,
            rows=plan.rows,
            leftovers=plan.leftovers,
            found={uid: plan.orphans.get(uid, ()) for uid in plan.kept | plan.planned.keys()},
            inventory=plan.inventory,
            mounts=self._publisher.rows(),
            profiles=self._profiles.rows(),
            figures=self._rules.figures(),
            workloads=self._workloads.rows(),
            disk=steady(plan.disk, _disk_of(written)) if written else plan.disk,
            folders=steady_folders(plan.folders, written.cache_folders) if written else plan.folders,
            modes=self._volumes.modes,
            modes_message=self._volumes.why_no_overlay,
            confinement=self._confinement,
            observer=self._observation.message,
            refused=self._volumes.overlays.refused,
            address=_host_port(self._places.address, self._places.peer_port),
            version=self._driver.version,
            trouble=self._trouble(),
            now=format_time(time.time()),
            hardware=node_hardware(self._machine.machine),
            rates=self._rules.acting.rates.known(),
            plugins=() if self._plugins is None else self._plugins.rows(),
            order_plugins=self._order_plugins.rows(),
            memory=plan.memory,
            cpus=plan.cpus,
            origins=plan.origins,
            workload_count=self._workloads.count(),
            ended=self._accounts.rows(),
            ended_left_out=self._accounts.left_out,
        )

    def _trouble(self) -> str:
        """Return why this node serves no datasets well, in a sentence; empty when it does."""
        if not self._plan.fetcher_connected and self._plan.fetcher_age() > FETCHER_GRACE:
            return (
                "The fetcher does not answer, so nothing new reaches this node's disk; what is there is served. "
                "Look at the logs of the node's stoker-sidecar pod."
            )
        if self._registration is not None and self._registration.error:
            why = self._registration.error
            return f"The kubelet refused to register the CSI driver, so pods cannot mount datasets here: {why}"
        return ""

    def _not_ready(self) -> str:
        """Return why the readiness probe fails, or nothing.

        A missing NodeCache is no reason: the operator makes it for ready sidecars.
        """
        if not self._plan.synced:
            return "The API server has not been reached yet."
        if not self._plan.fetcher_connected:
            return "The fetcher does not answer yet."
        return ""


def _disk_of(status: NodeCacheStatus) -> DiskFigures:
    return DiskFigures(status.capacity_bytes, status.used_bytes, status.available_bytes)


def _host_port(address: str, port: int) -> str:
    if not address:
        return ""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
