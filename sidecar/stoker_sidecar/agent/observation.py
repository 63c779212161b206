"""What the agent knows of reads on its node: the parts that see them, and the figures that become of it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from stoker_api.node_workload import EvidenceSource, NodeWorkload
from stoker_sidecar.agent.access_server import AccessClient, AccessServer
from stoker_sidecar.agent.core.reading import ObservedTree
from stoker_sidecar.agent.dataset_layouts import DatasetLayouts
from stoker_sidecar.agent.loader_sampler import LoaderSampler
from stoker_sidecar.agent.model_heads import ModelHeads
from stoker_sidecar.agent.node_plugins import NodePlugins
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.plugin_files import PluginFiles
from stoker_sidecar.agent.pod_frameworks import PodFrameworks
from stoker_sidecar.agent.readers import ReaderProcesses
from stoker_sidecar.agent.stall_meter import StallMeter
from stoker_sidecar.agent.training_watch import TrainingWatch
from stoker_sidecar.agent.tree_watching import TreeWatching
from stoker_sidecar.agent.workloads import Workloads
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.access_protocol import SOCKET, AccessBatch

log = logging.getLogger(__name__)
# Seconds between two looks at the figures: a stall is one of this span.
FIGURES_SECONDS = 10.0


class Observation:
    """Everything about reads on one node. ``run`` it beside the agent's other parts.

    ``mounted``: what pods have mounted. ``run_dir``: of the sockets. ``cgroups``: the node's cgroup v2 file system.
    ``family``: pid of the process that started the sidecar's others. ``off``: why nobody looks at anything, and
    ``blind``: why native and overlay mounts are not seen; sentences, empty where that is not so. ``cpu``: the share of
    a core that looking may cost, as it is told. ``loaders``: samples loaders with workers; made when it is left out.
    ``plugins``: are asked about files that pods open; None: nobody is.
    """

    def __init__(
        self,
        plan: NodePlan,
        mounted: Callable[[], Iterable[Published]],
        folders: CacheFolders,
        *,
        mount_root: Path,
        run_dir: Path,
        cgroups: Path,
        family: int,
        off: str = "",
        blind: str = "",
        cpu: str = "0.01",
        loaders: LoaderSampler | None = None,
        plugins: NodePlugins | None = None,
    ) -> None:
        self._plan = plan
        self._mounted = mounted
        self._off = off
        self._blind = blind
        self._cpu = cpu
        self.watching = TreeWatching(mounted, self._unobserved, plan.changes, folders, mount_root)
        self._meter = StallMeter(cgroups, loaders=loaders)
        self._server = AccessServer(
            run_dir / SOCKET,
            on_observer=self.watching.set_observer,
            on_asked=self.watching.ask,
            on_batch=self._take,
            is_counted=plan.is_observed,
        )
        self._layouts = DatasetLayouts(folders)
        self._files = None if plugins is None else PluginFiles(folders, plugins)
        self._heads = ModelHeads(folders, self._files)
        self._readers = ReaderProcesses(family)
        self._frameworks = PodFrameworks()
        self.workloads = Workloads(self._observed, self._readers, watch=TrainingWatch(self._layouts, self._heads))
        self.news = Changes()  # marked after each look
        self.rows: tuple[NodeWorkload, ...] = ()

    @property
    def message(self) -> str:
        """What sees reads of native and overlay mounts, for people."""
        why = self._off or self._blind
        if why:
            return f"None: {why}"
        if not self._plan.observed:
            return "None: the annotation stoker.dev/observe of this NodeCache turns it off"
        refused = next(iter(self.watching.refused.values()), "")
        but = f"; {len(self.watching.refused)} mounted versions are not seen: {refused}" if refused else ""
        return f"Fanotify, with {float(self._cpu):.2%} of a core{but}"

    def frameworks_by_files(self) -> dict[str, str]:
        """Return the framework that the files which a pod has mounted are of, where plug-ins say one, by UID."""
        found = {} if self._files is None else self._files.frameworks
        named = {row.request.pod_uid: found.get((row.uid, row.version), "") for row in self._observed()}
        return {uid: framework for uid, framework in named.items() if uid and framework}

    async def run(self) -> None:
        """See reads and keep the figures, until cancelled. Raises OSError when the socket cannot be had."""
        if self._off:
            return
        parts = [self._keep_figures(), self._keep_counting(), self._layouts.run(), self._heads.run()]
        parts += [] if self._blind else [self.watching.run()]
        parts += [] if self._files is None else [self._files.run()]
        try:
            with self._server.serving():
                async with asyncio.TaskGroup() as tasks:
                    for part in parts:
                        tasks.create_task(part)
        finally:
            self._meter.stop()

    async def look(self) -> None:
        """Bring the figures up to date."""
        pods = self.workloads.alone_by_fuse() if self._plan.observed else {}
        if pods:
            self.workloads.stalls = await in_thread(self._meter.measure, pods, dict(self.workloads.waited))
            await in_thread(self._frameworks.look, self._readers.processes(), pods)
            self.workloads.frameworks = self._frameworks.found
        self._meter.watch(self._followed_readers(pods))
        self.workloads.follow()
        self.rows = self.workloads.rows()
        self.news.mark()

    async def _keep_figures(self) -> None:
        while True:
            await asyncio.sleep(FIGURES_SECONDS)
            await self.look()

    async def _keep_counting(self) -> None:
        """Tell FUSE servers when a Dataset is to be looked at, or no more, and follow who has one mounted."""
        told: tuple[bool, frozenset[str]] | None = None
        while True:
            token = self._plan.changes.token()
            wanted = self._plan.observed, self._plan.unobserved
            if told != wanted:
                told = wanted
                self._server.tell_counting()
            self.workloads.follow()
            await self._plan.changes.wait(token)

    def _followed_readers(self, pods: Collection[str]) -> dict[str, list[int]]:
        """Return which processes read of each of these pods that is followed in detail: ten at most."""
        processes = self._readers.processes()
        return {uid: processes.get(uid, []) for uid in self.workloads.followed() if uid in pods}

    def _observed(self) -> tuple[Published, ...]:
        return tuple(row for row in self._mounted() if self._plan.is_observed(row.uid))

    def _unobserved(self) -> frozenset[str]:
        return frozenset(row.uid for row in self._mounted() if not self._plan.is_observed(row.uid))

    def _take(self, client: AccessClient, batch: AccessBatch) -> None:
        tree = self._tree(client, batch)
        if tree is not None and self._plan.is_observed(tree.uid):
            self.workloads.take(tree, batch)

    def _tree(self, client: AccessClient, batch: AccessBatch) -> ObservedTree | None:
        if client.version is not None:
            return ObservedTree(*client.version, EvidenceSource.FUSE)
        watch = self.watching.watch_of(batch.watch)
        return ObservedTree(watch.uid, watch.digest, EvidenceSource.FANOTIFY) if watch is not None else None
