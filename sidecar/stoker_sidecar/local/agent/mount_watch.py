"""Observation, reports and tuning of one mount: the parts of a node, for a node with one mount."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.meta import read_bounded
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_sidecar.agent.learning.node_learning import NodeLearning
from stoker_sidecar.agent.learning.rule_trials import RuleTrials
from stoker_sidecar.agent.learning.tuning_history import TuningHistory
from stoker_sidecar.agent.learning.tuning_subjects import TuningSubjects
from stoker_sidecar.agent.observation.observation import Observation
from stoker_sidecar.agent.orders.followed_order import Tell
from stoker_sidecar.agent.orders.node_orders import NodeOrders
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.pods.node_workloads import NodeWorkloads, told_change
from stoker_sidecar.agent.pods.report_link import ReportedWorkloads, ReportLink
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.linux.fanotify import why_not
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.local.agent.mount_methods import MountMethod
from stoker_sidecar.local.mounts.mount_paths import UID, HomePaths, RunPaths
from stoker_sidecar.local.mounts.mount_spec import NAMESPACE, MountSpec
from stoker_sidecar.local.reports.report_parts import OrderReport
from stoker_sidecar.tuning.source import TuningSource
from stoker_sidecar.tuning.tuner import Tuner
from stoker_sidecar.volumes.core.publish import Published, PublishRequest
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.reader_protocol import SOCKET as READER_SOCKET
from stoker_tuning.rules.facts import SystemFacts

_CGROUPS = Path("/sys/fs/cgroup")
_ORDER_SECONDS = 1.0  # between two checks of the order's state


class MountWatch:
    """Follows a mount's readers, acts on their behavior, and learns. ``run`` it next to the agent's other parts.

    ``tell`` hands the fetcher what comes next in the order that the spec says, or who reads it. ``version``: that is
    mounted; empty: none yet. ``source``: the rules. ``framework``: of the files, as plug-ins say.
    ``plugins``: may be asked for orders.
    """

    def __init__(
        self,
        spec: MountSpec,
        run: RunPaths,
        plan: NodePlan,
        folders: CacheFolders,
        method: MountMethod,
        source: TuningSource,
        *,
        tell: Tell,
        plugins: NodePlugins,
        version: Callable[[], str],
        framework: Callable[[], str],
        system: Callable[[], SystemFacts],
    ) -> None:
        home = HomePaths(spec.home)
        self._spec = spec
        self._plan = plan
        self._folders = folders
        self._method = method
        self._version = version
        self._found: dict[str, Path] = {}  # by version: needed for each batch of reads
        home.mounts.mkdir(parents=True, exist_ok=True)
        blind = why_not(home.mounts) if os.geteuid() == 0 else "only root may look at opened files"
        reader = VersionReader(run.folder / READER_SOCKET)
        self._orders = NodeOrders(self._mounted, folders, reader, tell, plan.changes, plugins=plugins)
        self.observation = Observation(
            plan,
            self._mounted,
            folders,
            mount_root=home.mounts,
            run_dir=run.folder,
            cgroups=_CGROUPS,
            family=os.getppid(),  # the keeper
            blind=blind,
            reader=reader,
            on_reads=self._orders.take,
        )
        self.learning = NodeLearning(TuningHistory(home.history), self.observation.news)
        self.reports = MountReports(spec, run, self.observation.news, self._orders.reported.take)
        self._workloads = NodeWorkloads(
            self.reports.rows,
            lambda: self.observation.rows,
            self.observation.news,
            plan.changes,
            tuned=lambda row: self._orders.shown(self.learning.shown(row)),
            files=lambda: {UID: framework()} if framework() else {},
        )
        self._trials = RuleTrials(source, plan, self.learning, self._workloads.known)
        self._acting = TuningSubjects(plan, folders, self._trials, self._workloads.known, system)

    @property
    def tuner(self) -> Tuner:
        """The tuner, which puts the rules in force."""
        return self._acting.tuner

    @property
    def tuned(self) -> str:
        """The outcome of the last tested rule; empty before the first."""
        return told_change(self.learning.decisions[-1]) if self.learning.decisions else ""

    @property
    def order(self) -> OrderReport:
        """The state of the order from the spec or from a reader."""
        view = self._orders.view(UID)
        if view is None:
            return OrderReport()
        return OrderReport(
            state=view.state.value, agreement=view.agreement, message=view.message, source=view.source.value
        )

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return the current rows of the mount's readers."""
        return self._workloads.known()

    @property
    def unseen(self) -> str:
        """Why reads of the current mount are not observed, a sentence; empty if they are."""
        told = self.observation.message
        return "" if self._method.mode is MountMode.FUSE or not told.startswith("None: ") else told

    async def run(self) -> None:
        """Observe, act and learn, until cancelled. Raises OSError if the access socket is unavailable."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.observation.run())
            tasks.create_task(self._learn())
            tasks.create_task(self._acting.run())
            tasks.create_task(self._trials.run(self._acting.tuner))
            tasks.create_task(self.reports.run())
            tasks.create_task(self._orders.run())
            tasks.create_task(self._tell_order())

    async def _learn(self) -> None:
        await self.learning.run(self._workloads.known, self.observation.workloads.opened, self._trials.counts)

    async def _tell_order(self) -> None:
        """Trigger a new report when the order or the report socket changes, until cancelled."""
        told = self.order, self.reports.socket
        while True:
            await asyncio.sleep(_ORDER_SECONDS)
            if (now := (self.order, self.reports.socket)) != told:
                told = now
                self._plan.changes.mark()

    def _mounted(self) -> tuple[Published, ...]:
        """Return the mount as a volume of one pod; empty while it is not mounted."""
        version, mode, row = self._version(), self._method.mode, self._plan.status_of(UID)
        if not version or mode is None:
            return ()
        if version not in self._found and (paths := self._folders.paths(UID, version)) is not None:
            self._found = {version: paths.folder}
        if version not in self._found:
            return ()
        files, size = (row.files, row.bytes) if row is not None else (0, 0)
        spec = self._spec
        request = PublishRequest(
            UID, spec.folder, NAMESPACE, spec.source.uri, NAMESPACE, spec.pod, UID, True, sampling=spec.sampling
        )
        return (
            Published(
                request, UID, version, self._found[version], files, size, mode, fuse=mode is not MountMode.NATIVE
            ),
        )


# For 2 s: a started listener listens within one second.
_LOOKS, _LOOK_SECONDS = 100, 0.02


class MountReports:
    """Receives reports of one mount's programs. ``run`` it. Raises OSError if the socket's folder cannot be created.

    ``news`` is marked when a report arrives. ``on_orders`` gets reported orders, by UID.
    """

    def __init__(
        self, spec: MountSpec, run: RunPaths, news: Changes, on_orders: Callable[[Mapping[str, ReportedOrder]], None]
    ) -> None:
        self._run = run
        self._pod = ReportVolume(UID, spec.folder, NAMESPACE, spec.pod, UID)
        row = {"volume_id": UID, "dataset_namespace": NAMESPACE, "dataset": spec.source.uri, "pod_uid": UID}
        mounted = read_bounded(NodeMount, row)
        self._said = ReportedWorkloads(self, lambda: (mounted,), on_orders=on_orders)
        # Reports are trusted, so the folder is only for the mounting user. The socket itself has no restrictions.
        run.report_socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # There are no changes: one pod exists as long as the mount.
        self._link = ReportLink(run.listener_socket, self, self._said, Changes(), news)

    def all(self) -> tuple[ReportVolume, ...]:
        """Return the mount as the report volume of a pod."""
        return (self._pod,)

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return the last report; empty before the first one."""
        return self._said.rows()

    @property
    def socket(self) -> str:
        """The socket for reports; empty while nothing listens."""
        return str(self._run.report_socket) if is_there(self._run.report_socket) else ""

    async def run(self) -> None:
        """Receive reports, until cancelled."""
        await self._link.run()

    async def until_heard(self) -> None:
        """Wait briefly until the socket is ready."""
        for _ in range(_LOOKS):
            if self.socket:
                return
            await asyncio.sleep(_LOOK_SECONDS)
