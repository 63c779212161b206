"""What the programs that read a mount say of their training, over a socket like a pod's: the mount is the only pod."""

import asyncio
from collections.abc import Callable, Mapping

from stoker_api.node_storage import NodeMount
from stoker_api.node_workload import NodeWorkload
from stoker_sidecar.agent.core.reported_plans import ReportedOrder
from stoker_sidecar.agent.report_link import ReportedWorkloads, ReportLink
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.local.mount_paths import UID, RunPaths
from stoker_sidecar.local.mount_spec import NAMESPACE, MountSpec
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.synchronization import Changes

# For 2 s: a listener that has been started listens within one.
_LOOKS, _LOOK_SECONDS = 100, 0.02


class MountReports:
    """Hears one mount's programs. ``run`` it. Raises OSError when the socket's folder cannot be made.

    ``news`` is marked when something was said; ``on_orders`` is given the orders that are said, by UID.
    """

    def __init__(
        self, spec: MountSpec, run: RunPaths, news: Changes, on_orders: Callable[[Mapping[str, ReportedOrder]], None]
    ) -> None:
        self._run = run
        self._pod = ReportVolume(UID, spec.folder, NAMESPACE, spec.pod, UID)
        mounted = NodeMount(volume_id=UID, dataset_namespace=NAMESPACE, dataset=spec.source.uri, pod_uid=UID)
        self._said = ReportedWorkloads(self, lambda: (mounted,), on_orders=on_orders)
        # What is said there is believed, so it is for who mounts: the socket itself is for whoever has a way to it.
        run.report_socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Nothing changes: there is one pod as long as there is a mount.
        self._link = ReportLink(run.listener_socket, self, self._said, Changes(), news)

    def all(self) -> tuple[ReportVolume, ...]:
        """Return the mount as the report volume of a pod."""
        return (self._pod,)

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return what was said last; nothing before."""
        return self._said.rows()

    @property
    def socket(self) -> str:
        """Where programs are heard; empty while they are not."""
        return str(self._run.report_socket) if is_there(self._run.report_socket) else ""

    async def run(self) -> None:
        """Hear, until cancelled."""
        await self._link.run()

    async def until_heard(self) -> None:
        """Wait until programs are heard; for a moment only."""
        for _ in range(_LOOKS):
            if self.socket:
                return
            await asyncio.sleep(_LOOK_SECONDS)
