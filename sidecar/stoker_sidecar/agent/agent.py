"""The agent: builds the parts that talk to Kubernetes, the kubelet, the fetcher and the keeper, and runs them side by side."""

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from stoker_api.nodecache import NodeCacheStatus
from stoker_kube.api import Kube
from stoker_sidecar.agent.cache_roots import CacheRootKeeper
from stoker_sidecar.agent.core.commands import Held
from stoker_sidecar.agent.core.status import Disk, Facts, node_status, steady, steady_folders
from stoker_sidecar.agent.credentials import CredentialReader
from stoker_sidecar.agent.csi.registration import RegistrationService
from stoker_sidecar.agent.csi.server import Driver, serve_driver
from stoker_sidecar.agent.fetcher_link import FetcherLink
from stoker_sidecar.agent.http import NodeHttp, serve_http
from stoker_sidecar.agent.metrics import AgentMetrics
from stoker_sidecar.agent.notices import NoticeTeller
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.settings import AgentSettings, PathSettings
from stoker_sidecar.agent.status_writer import StatusWriter
from stoker_sidecar.agent.watcher import follow_node_cache
from stoker_sidecar.linux import mounts
from stoker_sidecar.volumes import overlay_probe as probe
from stoker_sidecar.volumes.mount_table import JsonMountTable
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.overlays import Overlays
from stoker_sidecar.volumes.promotion import Promoter
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.sources import Sources
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.keeper_client import KeeperClient

log = logging.getLogger(__name__)
# Seconds without the fetcher before it is said aloud: the keeper starts it again within one or two.
FETCHER_GRACE = 10.0


class Agent:
    """One node's agent. ``run`` ends when ``stopping`` is set; a part that fails ends it with that error, and the keeper starts it anew."""

    def __init__(self, settings: AgentSettings, kube: Kube) -> None:
        paths = settings.paths
        table = JsonMountTable(paths.mount_table)
        self._settings = settings
        self._table = table
        self._plan = NodePlan()
        self._folders = CacheFolders([Path(folder.path) for folder in settings.cache], self._plan.in_service)
        self._no_overlay = why_no_overlay(paths, wanted=settings.overlay)
        self._modes = probe.modes(self._no_overlay)
        log.info(
            "mount modes of this node: %s%s",
            ", ".join(self._modes),
            f"; {self._no_overlay}" if self._no_overlay else "",
        )
        self._overlays = Overlays(paths.metadata_root, paths.mount_root, self._plan.changes.mark)
        keeper = KeeperClient(paths.keeper_socket)
        self._publisher = Publisher(
            self._plan,
            self._folders,
            table,
            Mounter(Sources(keeper, self._overlays, table, paths.mount_root, self._modes), mounts, table),
            on_change=self._plan.changes.mark,
            wait_seconds=settings.publish_wait,
        )
        self._metrics = AgentMetrics(self._plan, self._publisher.rows)
        self._version = version("stoker")
        self._kube = kube
        self._link = FetcherLink(paths.fetcher_socket, self._plan, self._held)
        self._port = settings.http_port
        self._registration: RegistrationService | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until ``stopping`` is set; stops within about 3 s. Raises OSError when a socket or port cannot be had."""
        async with AsyncExitStack() as stack:
            http = NodeHttp(self._folders, self._not_ready, self._metrics.render)
            await stack.enter_async_context(serve_http(http.application(), self._port))
            driver = Driver(self._settings.node.name, self._version, self._settings.paths.kubelet_dir)
            self._registration = await stack.enter_async_context(
                serve_driver(driver, self._publisher, lambda: self._plan.synced, self._metrics.observe_call)
            )
            log.info("serving node %s: HTTP on port %d, CSI on %s", driver.node_name, self._port, driver.csi_socket)
            await self._side_by_side(stopping)

    async def _side_by_side(self, stopping: asyncio.Event) -> None:
        name = self._settings.node.name
        writer = StatusWriter(self._kube, name, self._plan.changes, self._status)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(part)
                for part in (
                    follow_node_cache(self._kube, name, self._plan),
                    self._link.run(),
                    CredentialReader(self._kube, self._plan).run(),
                    writer.run(),
                    NoticeTeller(self._kube, name, self._plan).run(),
                    CacheRootKeeper(self._plan, self._settings.paths.fetcher_socket).run(),
                    self._keep_mounts(),
                )
            ]
            await stopping.wait()
            for task in running:
                task.cancel()

    async def _keep_mounts(self) -> None:
        await self._publisher.restore()
        await Promoter(self._plan.changes, self._publisher).run()

    def _held(self) -> Held:
        uids = {record.uid for record in self._table.all()}
        return {uid: self._publisher.held(uid) for uid in uids}

    def _status(self, written: NodeCacheStatus | None) -> NodeCacheStatus | None:
        plan = self._plan
        if plan.generation is None:
            return None
        facts = Facts(
            generation=plan.generation,
            plan=plan.datasets,
            rows=plan.rows,
            leftovers=plan.leftovers,
            mounts=self._publisher.rows(),
            disk=steady(plan.disk, _disk_of(written)) if written else plan.disk,
            folders=steady_folders(plan.folders, written.cache_folders) if written else plan.folders,
            modes=self._modes,
            modes_message=self._no_overlay,
            refused=self._overlays.refused,
            address=_host_port(self._settings.node.address, self._port),
            version=self._version,
            trouble=self._trouble(),
            now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        return node_status(facts, written.conditions if written else plan.conditions)

    def _trouble(self) -> str:
        """Why this node serves no datasets well, in a sentence; empty when it does."""
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
        """For the readiness probe. A missing NodeCache is no reason: the operator makes it for ready sidecars."""
        if not self._plan.synced:
            return "The API server has not been reached yet."
        if not self._plan.fetcher_connected:
            return "The fetcher does not answer yet."
        return ""


def why_no_overlay(paths: PathSettings, *, wanted: bool) -> str:
    """A sentence; empty where overlays work, which is tried for real."""
    if not wanted:
        return "Overlays are turned off by the chart's value sidecar.overlay."
    return probe.why_no_overlay(paths.metadata_root, paths.mount_root)


def _disk_of(status: NodeCacheStatus) -> Disk:
    return Disk(status.capacity_bytes, status.used_bytes, status.available_bytes)


def _host_port(address: str, port: int) -> str:
    if not address:
        return ""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
