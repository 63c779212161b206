"""The agent's observation of reads on its node: its parts, and the resulting figures."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from stoker_api.node_caches.node_workload import EvidenceSource, NodeWorkload
from stoker_sidecar.agent.core.stall import PodStalls
from stoker_sidecar.agent.observation.access_server import AccessClient, AccessServer
from stoker_sidecar.agent.observation.loaders.loader_sampler import LoaderSampler
from stoker_sidecar.agent.observation.loaders.stall_meter import StallMeter
from stoker_sidecar.agent.observation.pod_frameworks import PodFrameworks
from stoker_sidecar.agent.observation.readers import ReaderProcesses
from stoker_sidecar.agent.observation.training.dataset_layouts import DatasetLayouts
from stoker_sidecar.agent.observation.training.model_heads import ModelHeads
from stoker_sidecar.agent.observation.training.training_watch import TrainingWatch
from stoker_sidecar.agent.observation.tree_watching import TreeWatching
from stoker_sidecar.agent.observation.workloads import OnReads, Workloads, ignore_reads
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.agent.questions.plugins.plugin_files import PluginFiles
from stoker_sidecar.agent.questions.reading.reading import ObservedTree
from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.access_protocol import SOCKET, AccessBatch
from stoker_sidecar.wire.reader_protocol import SOCKET as READER_SOCKET

log = logging.getLogger(__name__)
# Seconds between updates of the figures: the span of a stall figure.
FIGURES_SECONDS = 10.0
# Seconds between checks for another phase or epoch, and the maximum age of fresh rows.
PHASES_SECONDS = 0.25
_PHASE_REST = 0.05  # seconds between two phase checks as batches arrive: a check takes 0.1 ms for ten pods


class Observation:
    """The observation of reads on one node. ``run`` it next to the agent's other parts.

    ``mounted`` returns the mounted volumes. ``run_dir`` is the sockets' folder, and ``cgroups`` the node's cgroup v2
    file system. ``family`` is the pid of the process that started the sidecar's other processes. ``off`` is the reason
    why nothing is observed, and ``blind`` why native and overlay mounts are not; sentences, or empty. ``cpu`` is the
    configured share of a core for observation. ``loaders`` samples loaders with workers; created by default.
    ``plugins`` answer questions about opened files; None: no plug-ins. ``reader`` reads files of versions; created by
    default. ``on_reads`` gets the reads of pods.
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
        reader: VersionReader | None = None,
        on_reads: OnReads = ignore_reads,
    ) -> None:
        self._plan = plan
        self._mounted = mounted
        self._off = off
        self._blind = blind
        self._cpu = cpu
        self.watching = TreeWatching(mounted, self._unobserved, plan.changes, folders, mount_root)
        self._meter = StallMeter(cgroups, loaders=loaders)
        self.pressure = pressure_support(cgroups)  # for people
        self._server = AccessServer(
            run_dir / SOCKET,
            on_observer=self.watching.set_observer,
            on_asked=self.watching.ask,
            on_batch=self._take,
            is_counted=plan.is_observed,
        )
        reader = reader or VersionReader(run_dir / READER_SOCKET)
        self._layouts = DatasetLayouts(folders, reader, plan.namespace_of)
        self._files = None if plugins is None else PluginFiles(folders, plugins.ask)
        self._heads = ModelHeads(folders, reader, self._files, plan.namespace_of)
        self._readers = ReaderProcesses(family)
        self._frameworks = PodFrameworks()
        watch = TrainingWatch(self._layouts, self._heads)
        self.workloads = Workloads(self._observed, self._readers, watch=watch, on_reads=on_reads)
        self.news = Changes()  # marked after each update
        self.rows: tuple[NodeWorkload, ...] = ()
        self._rows_at = float("-inf")  # seconds of the monotonic clock
        self._phases: dict[str, object] = {}
        self._phases_at = float("-inf")

    @property
    def message(self) -> str:
        """The observation method for native and overlay mounts, for people."""
        why = self._off or self._blind
        if why:
            return f"None: {why}"
        if not self._plan.observed:
            return "None: the annotation stoker.dev/observe of this NodeCache turns it off"
        refused = next(iter(self.watching.refused.values()), "")
        but = f"; {len(self.watching.refused)} mounted versions are not seen: {refused}" if refused else ""
        return f"Fanotify, with {float(self._cpu):.2%} of a core{but}"

    def stall_seconds(self) -> Mapping[str, PodStalls]:
        """Return the counted waits of pods so far, by UID."""
        return self._meter.seconds

    def why_no_stall(self, uid: str, node: str) -> str:
        """Return why the waits of an ended pod were not counted on ``node``, for people."""
        if self._off or not self._plan.observed:
            return f"no stall source on {node}: {self._off or 'stoker.dev/observe of its NodeCache is off'}"
        return self._meter.why_not(uid, node)

    def frameworks_by_files(self) -> dict[str, str]:
        """Return the framework of each pod's mounted files by UID, where plug-ins know it."""
        found = {} if self._files is None else self._files.frameworks
        named = {row.request.pod_uid: found.get((row.uid, row.version), "") for row in self._observed()}
        return {uid: framework for uid, framework in named.items() if uid and framework}

    async def run(self) -> None:
        """Observe reads and update the figures, until cancelled. Raises OSError if the socket is unavailable."""
        if self._off:
            return
        parts = [self._keep_figures(), self._keep_phases(), self._keep_counting()]
        parts += [self._layouts.run(), self._heads.run()]
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
        """Update the figures."""
        pods = self.workloads.alone_by_fuse() if self._plan.observed else {}
        if pods:
            self.workloads.stalls = await in_thread(self._meter.measure, pods, dict(self.workloads.waited))
            await in_thread(self._frameworks.look, self._readers.processes(), pods)
            self.workloads.frameworks = self._frameworks.found
        self._meter.watch(self._followed_readers(pods))
        self.workloads.follow()
        self._take_rows()
        self.news.mark()

    def fresh(self) -> tuple[NodeWorkload, ...]:
        """Return the current rows, at most ``PHASES_SECONDS`` old."""
        if time.monotonic() - self._rows_at >= PHASES_SECONDS:
            self._take_rows()
        return self.rows

    def _take_rows(self) -> None:
        self.rows, self._rows_at = self.workloads.rows(), time.monotonic()

    async def _keep_phases(self) -> None:
        """Check for phases that start without a read, such as when a layout is ready."""
        while True:
            await asyncio.sleep(PHASES_SECONDS)
            self._look_for_phases()

    def _look_for_phases(self) -> None:
        """Update the rows if a phase or an epoch has started."""
        found, self._phases_at = self.workloads.phases(), time.monotonic()
        if found != self._phases:
            self._phases = found
            self._take_rows()
            self.news.mark()

    async def _keep_figures(self) -> None:
        while True:
            await asyncio.sleep(FIGURES_SECONDS)
            await self.look()

    async def _keep_counting(self) -> None:
        """Tell FUSE servers when a Dataset's observation starts or stops, and follow the pods that mount it."""
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
        """Return the reading processes of each of these pods that is followed in detail, at most ten pods."""
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
            if time.monotonic() - self._phases_at >= _PHASE_REST:
                self._look_for_phases()

    def _tree(self, client: AccessClient, batch: AccessBatch) -> ObservedTree | None:
        if client.version is not None:
            return ObservedTree(*client.version, EvidenceSource.FUSE)
        watch = self.watching.watch_of(batch.watch)
        return ObservedTree(watch.uid, watch.digest, EvidenceSource.FANOTIFY) if watch is not None else None


_PRESSURE = Path("/proc/pressure/io")


def pressure_support(cgroups: Path, pressure: Path = _PRESSURE) -> str:
    """Describe the node's cgroups at ``cgroups`` and its pressure figures (PSI), or say "None" and why."""
    if not (cgroups / "cgroup.controllers").exists():
        return f"None: {cgroups} is not cgroup v2"
    try:
        pressure.read_bytes()
    except OSError:
        return "None: the kernel counts no pressure: boot it with psi=1, or build it with CONFIG_PSI"
    return "cgroup v2, with pressure of disks"
