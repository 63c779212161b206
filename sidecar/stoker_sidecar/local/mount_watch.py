"""What the programs that read one mount do, and what is learned of it: a node's own parts, for a node of one mount."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_api.node_workload import NodeWorkload
from stoker_sidecar.agent.acting import NodeActing
from stoker_sidecar.agent.core.number_windows import WindowTimes
from stoker_sidecar.agent.core.tuned_rows import told_change
from stoker_sidecar.agent.followed_order import Tell
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_sidecar.agent.node_orders import NodeOrders
from stoker_sidecar.agent.node_workloads import NodeWorkloads
from stoker_sidecar.agent.number_trials import NumberTrials
from stoker_sidecar.agent.observation import Observation
from stoker_sidecar.agent.order_plugins import order_plugins
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.reported_orders import ReportedOrders
from stoker_sidecar.agent.rule_trials import RuleTrials
from stoker_sidecar.agent.tuning_history import TuningHistory
from stoker_sidecar.linux.fanotify import why_not
from stoker_sidecar.local.mount_methods import MountMethod
from stoker_sidecar.local.mount_paths import UID, HomePaths, RunPaths
from stoker_sidecar.local.mount_reports import MountReports
from stoker_sidecar.local.mount_spec import NAMESPACE, MountSpec
from stoker_sidecar.local.order_report import OrderReport
from stoker_sidecar.tuning.core.pace import MOST_TURNS
from stoker_sidecar.tuning.source import TuningSource
from stoker_sidecar.tuning.tuner import Tuner
from stoker_sidecar.volumes.core.publish import Published, PublishRequest
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.rules.facts import SystemFacts

_CGROUPS = Path("/sys/fs/cgroup")
_ORDER_SECONDS = 1.0  # between two looks at what is known of the order


class MountWatch:
    """Follows who reads a mount, acts by it, and learns. ``run`` it beside the agent's other parts.

    ``tell`` hands the fetcher what comes next in the order that the spec says, or who reads it. ``version``: that is
    mounted; empty: none yet. ``source``: the rules. ``framework``: of the files, as plug-ins say.
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
        self._found: dict[str, Path] = {}  # by version: asked for with each batch of reads
        home.mounts.mkdir(parents=True, exist_ok=True)
        blind = why_not(home.mounts) if os.geteuid() == 0 else "only root may look at opened files"
        self.observation = Observation(
            plan,
            self._mounted,
            folders,
            mount_root=home.mounts,
            run_dir=run.folder,
            cgroups=_CGROUPS,
            family=os.getppid(),  # the keeper
            blind=blind,
        )
        self.learning = NodeLearning(TuningHistory(home.history), self.observation.news)
        named = (spec.order_plugin,) if spec.order_plugin else ()
        self._order_plugins = order_plugins(named, run.folder, plan.changes)
        said = ReportedOrders(plan.changes.mark)
        self.reports = MountReports(spec, run, self.observation.news, said.take)
        self._orders = NodeOrders(self._mounted, folders, tell, plan.changes, said, self._order_plugins)
        self.observation.workloads.on_reads = self._orders.take
        self._workloads = NodeWorkloads(
            self.reports.rows,
            lambda: self.observation.rows,
            self.observation.news,
            plan.changes,
            tuned=lambda row: self._orders.shown(self.learning.shown(row)),
            files=lambda: {UID: framework()} if framework() else {},
        )
        self._trials = RuleTrials(source, plan, self.learning, self._workloads.known)
        times = WindowTimes(spec.tuning_window / 2, spec.tuning_window / 2)
        self._numbers = self._number_trials(times)
        turns = max(MOST_TURNS, times.turns_a_minute)
        self._acting = NodeActing(plan, folders, self._numbers, self._workloads.known, system, most_turns=turns)

    def _number_trials(self, times: WindowTimes) -> NumberTrials:
        return NumberTrials(
            self._trials,
            self.learning,
            lambda uid: self._spec.source.uri,
            self.observation.workloads.read_count,
            self._plan.changes,
            self._trials.is_settled,
            times,
        )

    @property
    def tuner(self) -> Tuner:
        """What puts the rules in force."""
        return self._acting.tuner

    @property
    def tuned(self) -> str:
        """What came of the last change of a number or rule; empty before there was one."""
        return told_change(self.learning.decisions[-1]) if self.learning.decisions else ""

    @property
    def order(self) -> OrderReport:
        """Whether it is read in the order that its spec says, or who reads it."""
        view = self._orders.view(UID)
        if view is None:
            return OrderReport()
        return OrderReport(
            state=view.state.value, agreement=view.agreement, message=view.message, source=view.source.value
        )

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return what is known now of who reads the mount."""
        return self._workloads.known()

    @property
    def unseen(self) -> str:
        """Why reads of the mount as it is now are not seen, a sentence; empty where they are."""
        told = self.observation.message
        return "" if self._method.mode is MountMode.FUSE or not told.startswith("None: ") else told

    async def run(self) -> None:
        """See, act and learn, until cancelled. Raises OSError when the socket for accesses cannot be had."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.observation.run())
            tasks.create_task(self.learning.run(self._workloads.known, self.observation.workloads.opened))
            tasks.create_task(self._acting.run())
            tasks.create_task(self._trials.run(self._acting.tuner))
            tasks.create_task(self._numbers.run(self._acting.tuner))
            tasks.create_task(self.reports.run())
            tasks.create_task(self._orders.run())
            tasks.create_task(self._tell_order())
            if self._spec.order_plugin:
                tasks.create_task(self._order_plugins.run())

    async def _tell_order(self) -> None:
        """Have the report written when something else is known of the order, or of who is heard, until cancelled."""
        told = self.order, self.reports.socket
        while True:
            await asyncio.sleep(_ORDER_SECONDS)
            if (now := (self.order, self.reports.socket)) != told:
                told = now
                self._plan.changes.mark()

    def _mounted(self) -> tuple[Published, ...]:
        """Return the mount as a volume of one pod; nothing while it is not mounted."""
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
