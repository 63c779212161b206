"""One pod's volume on a node without Kubernetes: the real publisher over real keeper, fetcher and mounts."""

import asyncio
from collections.abc import Collection
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.linux.mounts import target_mounts
from stoker_sidecar.volumes.layers.overlays import Overlays
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mount_upkeep import MountUpkeep
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.keeper_client import KeeperClient
from tests.fakes.volumes import Clock, FakePlan, node_dataset, publish_request
from tests.support.agentless_node import AgentlessNode, NodeVersion
from tests.support.keeper import Keeper
from tests.support.layer_forms import best_form
from tests.support.waiting import eventually_async


class PodVolume:
    """One pod's volume, and the agent's part of its node. ``modes`` are the node's mount modes.

    Call ``close`` at the end.
    """

    def __init__(self, node: AgentlessNode, modes: Collection[MountMode]) -> None:
        self._node = node
        self._modes = modes
        self._runner = asyncio.Runner()
        self._version: NodeVersion | None = None
        self.target = node.keeper.folder / "pods" / "pod" / "mount"
        self._start_agent()

    @property
    def mode(self) -> MountMode | None:
        """The mode of the top layer. None while nothing is published."""
        return next((row.mode for row in self._publisher.rows()), None)

    def publish(self, version: NodeVersion) -> None:
        """Mount it for a pod, as the kubelet requests."""
        self._version = version
        self._start_agent()
        self._runner.run(self._publisher.publish(publish_request(target=self.target)))

    def unpublish(self) -> None:
        """Unpublish the volume, as after the end of the pod."""
        self._runner.run(self._publisher.unpublish(self.target))
        assert target_mounts.layers(self.target) == ()

    def settle(self) -> None:
        """Swap until it has the best mount, which is not FUSE, as the reconciler does at every change."""
        version = self._version
        assert version is not None, "publish first"

        async def look() -> bool:
            return await self._upkeep.reconcile(version.uid, version.digest) and self.mode is not MountMode.FUSE

        self._runner.run(eventually_async(look))

    def restart_agent(self) -> None:
        """Start another agent, as after a kill: it finds the state of the last one."""
        self._start_agent()
        self._runner.run(self._upkeep.restore())

    def close(self) -> None:
        """Unpublish, and end the event loop."""
        self.unpublish()
        self._runner.close()

    def _start_agent(self) -> None:
        keeper: Keeper = self._node.keeper
        clock = Clock()
        plan = FakePlan(clock)
        if self._version is not None:
            plan.add(node_dataset(uid=self._version.uid, version=self._version.digest))
        state: Path = keeper.folder / "state"
        table = MountTable(state / "mounts.json")
        overlays = Overlays(state / "metadata", keeper.mount_root, lambda: None, form=best_form())
        client = KeeperClient(keeper.run_dir / "keeper.sock")
        sources = MountSources(client, overlays, table, keeper.mount_root, self._modes)
        find = CacheFolders([keeper.folder / "cache"]).find
        self._mounted = MountedVolumes(table, sources, Mounter(target_mounts), find)
        self._upkeep = MountUpkeep(self._mounted.bindings, sources)
        self._publisher = Publisher(plan, self._mounted, clock=clock)
