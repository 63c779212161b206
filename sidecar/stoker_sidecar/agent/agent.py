"""The agent: runs the parts that talk to Kubernetes, the kubelet, the fetcher and the keeper side by side."""

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from stoker_api.datasets.endpoint import host_port
from stoker_kube.api import Kube
from stoker_kube.tracing.spans import MountSpans
from stoker_sidecar.agent.core.grants import NodeGrants
from stoker_sidecar.agent.core.status import (
    node_hardware,
)
from stoker_sidecar.agent.csi.driver import Driver, serve_driver
from stoker_sidecar.agent.http.metrics import AgentMetrics
from stoker_sidecar.agent.http.observation_metrics import (
    LearningCollector,
    ObservationCollector,
    PeerCollector,
    PluginCollector,
)
from stoker_sidecar.agent.http.peers.file_response import UploadLimits
from stoker_sidecar.agent.http.peers.peer_files import PeerFiles
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity, PeerServer
from stoker_sidecar.agent.http.server import FiguresPage, NodeHttp, NodePage, serve_http
from stoker_sidecar.agent.http.tuning_http import TuningHttp
from stoker_sidecar.agent.kube.credentials import CredentialReader
from stoker_sidecar.agent.kube.node_account import NodeAccount
from stoker_sidecar.agent.kube.node_cache import NoticeTeller, StatusWriter, follow_node_cache
from stoker_sidecar.agent.learning.node_learning import NodeLearning
from stoker_sidecar.agent.learning.node_rules import NodeRules
from stoker_sidecar.agent.learning.tuning_history import TuningHistory
from stoker_sidecar.agent.learning.tuning_profiles import TuningProfiles
from stoker_sidecar.agent.node_report import NodeReport
from stoker_sidecar.agent.observation.observation import Observation
from stoker_sidecar.agent.orders.node_orders import NodeOrders
from stoker_sidecar.agent.planning.cache_roots import CacheRootKeeper
from stoker_sidecar.agent.planning.fetcher_link import FetcherLink
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.pods.node_workloads import NodeWorkloads, hints_of_pods
from stoker_sidecar.agent.pods.pod_accounts import AccountSources, PodAccounts
from stoker_sidecar.agent.pods.report_link import ReportedWorkloads, ReportLink
from stoker_sidecar.agent.pods.warm_file_list import WarmFileList
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.linux.hardware import Machine
from stoker_sidecar.tuning.machine_facts import MachineFacts
from stoker_sidecar.volumes.node_volumes import NodeVolumes
from stoker_sidecar.volumes.report_volumes import ReportVolumes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentPlaces:
    """Addresses, ports, files and folders of an agent.

    ``address``: of the pod, where other nodes fetch manifests and files; empty: nowhere. ``http_port``: health and
    metrics. ``peer_port``: manifests and files. ``learning_port``: pages that name pods and Datasets, on loopback.
    ``run_dir``: the sockets. ``history``: the tuning history. ``accounts``: figures of pods. ``namespace``: Stoker's
    own; the node's account lies in the namespace next to it. Empty: the agent reads credentials by its own account and
    serves no peers. ``uploads``: limits of uploads to peers.
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
    """The agent of one node. It runs its parts side by side.

    ``plan`` and ``folders`` are also those of ``volumes``. ``reports``: the report sockets of pods. ``orders``: those
    that the ``observation`` gives its reads, and that ask the fetcher through ``link``. ``grants``: which
    namespaces may use the node's credentials and folders. ``observation``: accesses of pods. ``confinement``: what
    confines the fetcher and FUSE servers, as a sentence. ``machine``: hardware of the node. ``spans``: traces of
    mounts.
    """

    def __init__(
        self,
        driver: Driver,
        kube: Kube,
        plan: NodePlan,
        folders: CacheFolders,
        volumes: NodeVolumes,
        reports: ReportVolumes,
        link: FetcherLink,
        orders: NodeOrders,
        places: AgentPlaces,
        *,
        grants: NodeGrants,
        observation: Observation,
        confinement: str = "",
        plugins: NodePlugins | None = None,
        machine: Machine = Machine(),  # noqa: B008 -- frozen
        spans: MountSpans | None = None,
    ) -> None:
        self._driver, self._kube, self._spans = driver, kube, spans
        self._plan, self._folders = plan, folders
        self._volumes = volumes
        self._publisher = volumes.publisher
        self._reports, self._observation = reports, observation
        self._link, self._orders = link, orders
        self._reported = ReportedWorkloads(reports, self._publisher.rows, on_orders=orders.reported.take)
        self._learning = NodeLearning(TuningHistory(places.history), observation.news)
        self._workloads = self._make_workloads()
        self._plugins = plugins or NodePlugins()
        self._warm_teller = WarmFileList(reports, volumes.mounted.all, folders, reports.root)
        self._profiles = TuningProfiles(kube, plan, self._plugins.documents)
        self._machine = MachineFacts(machine, lambda: plan.disk.capacity)
        self._tuning_http = TuningHttp(
            self._learning, self._workloads.known, self._profiles.rules, node_hardware(machine)
        )
        self._places = places
        self._grants = grants
        self._account = NodeAccount(kube, places.namespace, driver.node_name, time.monotonic, lambda: datetime.now(UTC))
        self._identity = PeerIdentity()
        self._peer_files = PeerFiles(plan, folders, self._link.ask, places.uploads)
        self._metrics = self._make_metrics()
        self._rules = self._make_rules()
        self._accounts = PodAccounts(places.accounts, plan, self._account_sources())
        self._report = self._make_report(machine, confinement)

    def _make_report(self, machine: Machine, confinement: str) -> NodeReport:
        return NodeReport(
            self._driver,
            self._plan,
            self._volumes,
            self._observation,
            self._plugins,
            self._workloads,
            self._profiles,
            self._rules,
            self._accounts,
            self._identity,
            machine,
            host_port(self._places.address, self._places.peer_port) if self._places.address else "",
            confinement,
        )

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
            fresh=seen.fresh,
        )

    def _make_rules(self) -> NodeRules:
        return NodeRules(
            self._profiles,
            self._learning,
            self._plan,
            self._folders,
            self._volumes,
            workloads=self._workloads.known,
            system=self._machine.system,
        )

    def _make_metrics(self) -> AgentMetrics:
        collectors = [
            ObservationCollector(self._plan, self._observation),
            LearningCollector(self._learning, self._workloads.known),
            PluginCollector(self._plugins),
            PeerCollector(self._plan, self._peer_files),
        ]
        return AgentMetrics(self._plan, self._publisher.rows, *collectors)

    def _account_sources(self) -> AccountSources:
        return AccountSources(
            mounted=self._volumes.mounted.all,
            reported=self._reported.summaries,
            seen=self._observation.stall_seconds,
            why_no_stall=self._why_no_stall,
            opened=self._observation.workloads.opened,
            rates=self._rules.acting.rates.known,
        )

    def _why_no_stall(self, uid: str) -> str:
        return f"{self._observation.why_no_stall(uid, self._driver.node_name)}, and it reports no wait_seconds"

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until ``stopping`` is set, then stop within about 3 s. A part that fails ends it with that error.

        Raises OSError when a socket or port cannot be had.
        """
        async with AsyncExitStack() as stack:
            http = NodeHttp(self._folders, self._report.not_ready, self._metrics.render, self._tuning_http.metrics)
            await stack.enter_async_context(serve_http(http.application(), self._places.http_port))
            own = self._tuning_http.application()
            NodePage(self._report.answer).add_to(own)
            await stack.enter_async_context(serve_http(own, self._places.learning_port, "127.0.0.1"))
            self._report.registration = await stack.enter_async_context(
                serve_driver(
                    self._driver,
                    self._publisher,
                    self._reports,
                    lambda: self._plan.synced,
                    self._metrics.observe_call,
                    self._spans,
                )
            )
            name, csi_socket = self._driver.node_name, self._driver.csi_socket
            log.info("serving node %s: HTTP on port %d, CSI on %s", name, self._places.http_port, csi_socket)
            await self._side_by_side(stopping, http)

    async def _side_by_side(self, stopping: asyncio.Event, http: NodeHttp) -> None:
        name, places = self._driver.node_name, self._places
        for_peers = http.for_peers()
        self._peer_files.add_to(for_peers)
        FiguresPage(self._report.figures).add_to(for_peers)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(part)
                for part in (
                    follow_node_cache(self._kube, name, self._plan),
                    self._link.run(),
                    self._orders.run(),
                    self._warm_teller.run(),
                    CredentialReader(self._account, self._plan, self._grants).run(),
                    self._status_writer().run(),
                    NoticeTeller(self._kube, name, self._plan).run(),
                    CacheRootKeeper(self._plan, self._places.fetcher_socket).run(),
                    self._report_link().run(),
                    self._workloads.run(),
                    self._accounts.run(),
                    PeerServer(self._plan, self._identity, for_peers, places.peer_port, places.run_dir).run(),
                    self._keep_mounts(),
                    self._identify_mounts(),
                    self._observation.run(),
                    self._learning.run(self._workloads.known, self._observation.workloads.opened, self._rules.counts),
                    self._rules.run(),
                    self._plugins.run(),
                )
            ]
            await stopping.wait()
            for task in running:
                task.cancel()

    def _status_writer(self) -> StatusWriter:
        plan, name = self._plan, self._driver.node_name
        return StatusWriter(self._kube, name, plan.changes, self._report.status, pace=lambda: plan.report_seconds)

    def _report_link(self) -> ReportLink:
        socket, news = self._places.run_dir / "reports.sock", self._observation.news
        return ReportLink(socket, self._reports, self._reported, self._plan.changes, news)

    async def _keep_mounts(self) -> None:
        await self._volumes.upkeep.restore()
        await self._reports.restore()
        await self._accounts.begin()
        await self._volumes.keep()

    async def _identify_mounts(self) -> None:
        """Name the mounts whose rows were rebuilt. Until then no status is written: it would not name them."""
        while (told := self._plan.told_mounts) is None:
            await self._plan.changes.wait()
        await self._volumes.upkeep.identify(told, self._plan.planned)
        self._report.identified = True
        self._plan.changes.mark()
