"""Entry point of the agent, which the keeper starts: its parts, and its end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from stoker_kube.api import Kube
from stoker_kube.client import KubeClient
from stoker_kube.errors import ConfigError
from stoker_sidecar.agent.agent import Agent, AgentPlaces
from stoker_sidecar.agent.core.grants import NodeGrants
from stoker_sidecar.agent.core.uploads import UploadLimits
from stoker_sidecar.agent.csi.driver import Driver
from stoker_sidecar.agent.node_plugins import NodePlugins, node_plugins
from stoker_sidecar.agent.observation import Observation
from stoker_sidecar.agent.order_plugins import order_plugins
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.settings import AgentSettings
from stoker_sidecar.linux import mounts
from stoker_sidecar.linux.confinement import describe
from stoker_sidecar.linux.fanotify import why_not
from stoker_sidecar.linux.hardware import read_machine
from stoker_sidecar.linux.landlock import abi
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.node_volumes import NodeVolumes, VolumePaths, node_volumes
from stoker_sidecar.volumes.report_volumes import ReportVolumes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.disk_floor import DiskFloor
from stoker_sidecar.wire.heartbeat import Heartbeat
from stoker_sidecar.wire.report_folders import REPORTS

log = logging.getLogger("stoker.agent")
_OVERLAYS_OFF = "Overlays are turned off by the chart's value sidecar.overlay."

_OBSERVER_OFF = "it is turned off by the chart's value sidecar.observe"


def build(settings: AgentSettings, kube: Kube) -> Agent:
    """Build the agent that these settings describe.

    Blocks for some milliseconds, in which it tries an overlay mount.
    """
    plan = NodePlan()
    folders = CacheFolders(
        [Path(folder.path) for folder in settings.cache_root], plan.in_service, confined=settings.confine == "Auto"
    )
    volumes = node_volumes(
        VolumePaths(
            mount_table=settings.state_dir / "mounts.json",
            mount_root=settings.mount_root,
            metadata_root=settings.state_dir / "metadata",
            keeper_socket=settings.run_dir / "keeper.sock",
        ),
        plan,
        folders,
        plan.changes,
        overlays_refused="" if settings.overlay == "Auto" else _OVERLAYS_OFF,
        wait_seconds=settings.publish_wait,
        floor=DiskFloor(settings.floor_bytes, settings.floor_inodes),
    )
    why = f"; {volumes.why_no_overlay}" if volumes.why_no_overlay else ""
    log.info("mount modes of this node: %s%s", ", ".join(volumes.modes), why)
    plugins = node_plugins(settings.plugins, settings.run_dir, plan.changes)
    return Agent(
        Driver(settings.node_name, version("stoker"), settings.kubelet_dir),
        kube,
        plan,
        folders,
        volumes,
        ReportVolumes(
            settings.state_dir / REPORTS, settings.state_dir / "report-volumes.json", Mounter(mounts), plan.changes.mark
        ),
        AgentPlaces(
            settings.pod_ip,
            settings.http_port,
            settings.peer_port,
            settings.learning_port,
            settings.run_dir,
            settings.state_dir / "tuning-history.db",
            settings.state_dir / "pod-accounts.json",
            settings.namespace,
            UploadLimits(settings.peer_uploads if settings.neighbours == "Auto" else 0, settings.peer_bytes_per_second),
        ),
        grants=NodeGrants(settings.ambient_namespaces, settings.host_folder_grants),
        observation=_observation(settings, plan, folders, volumes, plugins),
        plugins=plugins,
        order_plugins=order_plugins(settings.order_plugins, settings.run_dir, plan.changes),
        confinement=describe(abi(), wanted=settings.confine == "Auto"),
        machine=read_machine(Path(folder.path) for folder in settings.cache_root),
    )


def _observation(
    settings: AgentSettings, plan: NodePlan, folders: CacheFolders, volumes: NodeVolumes, plugins: NodePlugins | None
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
        plugins=plugins,
    )


async def run(settings: AgentSettings, heartbeat: Heartbeat) -> None:
    """Run the agent until SIGTERM or SIGINT. Raises ConfigError and OSError when it cannot start."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with await KubeClient.connect(settings.kubeconfig, account=settings.service_account) as kube:
        sending = asyncio.create_task(heartbeat.send_forever(asyncio.sleep))
        await build(settings, kube).run(stopping)
        sending.cancel()
    log.info("stopped")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; return the exit code."""
    settings = AgentSettings.parse(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    heartbeat = Heartbeat(settings.heartbeat_fd)
    heartbeat.wait_to_begin()
    try:
        asyncio.run(run(settings, heartbeat))
    except (ConfigError, OSError) as error:
        log.error("the agent cannot start: %s", error)
        return 1
    return 0
