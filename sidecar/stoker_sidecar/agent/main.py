"""Entry point of the agent, which the keeper starts: its parts, and its end."""

import asyncio
import logging
import os
import signal
import sys
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Sequence
from contextlib import closing, nullcontext
from importlib.metadata import version
from pathlib import Path

from stoker_api.log_lines import log_to_stderr
from stoker_kube.api import Kube
from stoker_kube.client import KubeClient
from stoker_kube.errors import ConfigError
from stoker_kube.tracing.spans import MountSpans, open_tracing
from stoker_sidecar.agent.agent import Agent, AgentPlaces
from stoker_sidecar.agent.core.grants import NodeGrants
from stoker_sidecar.agent.csi.driver import Driver
from stoker_sidecar.agent.http.peers.file_response import UploadLimits
from stoker_sidecar.agent.observation.observation import Observation
from stoker_sidecar.agent.observation.workloads import OnReads
from stoker_sidecar.agent.orders.node_orders import NodeOrders
from stoker_sidecar.agent.planning.fetcher_link import FetcherLink
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins, node_plugins
from stoker_sidecar.agent.questions.reading.read_failures import ReadFailures
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.agent.settings import AgentSettings
from stoker_sidecar.linux.fanotify import why_not
from stoker_sidecar.linux.hardware import read_machine
from stoker_sidecar.linux.mounts import target_mounts
from stoker_sidecar.linux.sandbox.confinement import describe
from stoker_sidecar.linux.sandbox.landlock import abi
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.node_volumes import NodeVolumes, VolumePaths, node_volumes
from stoker_sidecar.volumes.report_volumes import ReportVolumes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders, OpenedFolders
from stoker_sidecar.wire.config.disk_floor import DiskFloor
from stoker_sidecar.wire.config.folders import REPORTS
from stoker_sidecar.wire.heartbeat import Heartbeat
from stoker_sidecar.wire.reader_protocol import SOCKET as READER_SOCKET

log = logging.getLogger("stoker.agent")
_OVERLAYS_OFF = "Overlays are turned off by the chart's value sidecar.overlay."

# Bytes of each TLS connection's read buffer, which is in memory at once. asyncio's default is 256 KiB; a record has 16.
_TLS_BUFFER = 64 * 1024
_OBSERVER_OFF = "it is turned off by the chart's value sidecar.observe"


def build(settings: AgentSettings, kube: Kube, spans: MountSpans | None = None) -> Agent:
    """Build the agent that these settings describe.

    Blocks for some milliseconds, in which it tries an overlay mount. ``spans``: traces of mounts.
    """
    plan = NodePlan()
    folders = CacheFolders(
        [Path(folder.path) for folder in settings.cache_root],
        plan.in_service,
        confined=settings.confine == "Auto",
        opened=OpenedFolders(),
    )
    volumes = _volumes(settings, plan, folders)
    why = f"; {volumes.why_no_overlay}" if volumes.why_no_overlay else ""
    log.info("mount modes of this node: %s%s", ", ".join(volumes.modes), why)
    plugins = node_plugins(settings.run_dir, settings.plugins, settings.order_plugins, plan.changes)
    link = FetcherLink(settings.run_dir / "fetcher.sock", plan, volumes.publisher.held_versions)
    reader = VersionReader(settings.run_dir / READER_SOCKET, ReadFailures(settings.state_dir / "read-failures.json"))
    orders = NodeOrders(volumes.mounted.all, folders, reader, link.ask, plan.changes, plugins=plugins)
    return Agent(
        Driver(settings.node_name, version("stoker"), settings.kubelet_dir),
        kube,
        plan,
        folders,
        volumes,
        ReportVolumes(
            settings.state_dir / REPORTS,
            settings.state_dir / "report-volumes.json",
            Mounter(target_mounts),
            plan.changes.mark,
        ),
        link,
        orders,
        _places(settings),
        grants=NodeGrants(settings.ambient_namespaces, settings.host_folder_grants),
        observation=_observation(settings, plan, folders, volumes, plugins, reader, read_by(orders.take, spans)),
        plugins=plugins,
        confinement=describe(abi(), wanted=settings.confine == "Auto"),
        machine=read_machine(Path(folder.path) for folder in settings.cache_root),
        spans=spans,
    )


def _volumes(settings: AgentSettings, plan: NodePlan, folders: CacheFolders) -> NodeVolumes:
    return node_volumes(
        VolumePaths(
            mount_table=settings.state_dir / "mounts.json",
            mount_root=settings.mount_root,
            metadata_root=settings.state_dir / "metadata",
            keeper_socket=settings.run_dir / "keeper.sock",
            cache_disks=tuple(Path(folder.path) for folder in settings.cache_root if not folder.memory),
            pods=settings.kubelet_dir / "pods",
        ),
        plan,
        folders,
        plan.changes,
        overlays_refused="" if settings.overlay == "Auto" else _OVERLAYS_OFF,
        wait_seconds=settings.publish_wait,
        floor=DiskFloor(settings.floor_bytes, settings.floor_inodes),
    )


def _places(settings: AgentSettings) -> AgentPlaces:
    return AgentPlaces(
        settings.pod_ip,
        settings.http_port,
        settings.peer_port,
        settings.learning_port,
        settings.run_dir,
        settings.state_dir / "tuning-history.db",
        settings.state_dir / "pod-accounts.json",
        settings.namespace,
        UploadLimits(settings.peer_uploads if settings.peers == "Auto" else 0, settings.peer_bytes_per_second),
    )


def read_by(orders: OnReads, spans: MountSpans | None) -> OnReads:
    """Pass reads to ``orders``, and the first read of each pod to ``spans`` too."""
    if spans is None:
        return orders

    def take(tree: ObservedTree, pod_uid: str, batch: ReaderBatch) -> None:
        if batch.opens or batch.rows:
            first = min((row.seconds for row in batch.rows), default=batch.until)
            spans.read(pod_uid, time.monotonic() - first)
        orders(tree, pod_uid, batch)

    return take


def _observation(
    settings: AgentSettings,
    plan: NodePlan,
    folders: CacheFolders,
    volumes: NodeVolumes,
    plugins: NodePlugins,
    reader: VersionReader,
    on_reads: OnReads,
) -> Observation:
    off = "" if settings.observe == "Auto" else _OBSERVER_OFF
    return Observation(
        plan,
        volumes.mounted.all,
        folders,
        mount_root=settings.mount_root,
        run_dir=settings.run_dir,
        cgroups=settings.cgroup_root,
        family=os.getppid(),  # the keeper
        off=off,
        blind="" if off else why_not(settings.mount_root),
        cpu=settings.observer_cpu,
        plugins=plugins if settings.plugins else None,
        reader=reader,
        on_reads=on_reads,
    )


async def run(settings: AgentSettings, heartbeat: Heartbeat) -> None:
    """Run the agent until SIGTERM or SIGINT. Raises ConfigError and OSError when it cannot start."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with await KubeClient.connect(settings.kubeconfig, account=settings.service_account) as kube:
        sending = asyncio.create_task(heartbeat.send_forever(asyncio.sleep))
        sink = open_tracing("stoker-agent", os.environ)
        with closing(sink) if sink is not None else nullcontext():
            spans = MountSpans(sink, settings.node_name) if sink is not None else None
            await build(settings, kube, spans).run(stopping)
        sending.cancel()
    log.info("stopped")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; return the exit code."""
    settings = AgentSettings.parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr(settings.log_level)
    heartbeat = Heartbeat(settings.heartbeat_fd)
    heartbeat.wait_to_begin()
    SSLProtocol.max_size = _TLS_BUFFER
    try:
        asyncio.run(run(settings, heartbeat))
    except (ConfigError, OSError) as error:
        log.error("the agent cannot start: %s", error)
        return 1
    return 0
