"""The parts of a node that put rules in force for its Datasets, try them, and find numbers."""

import asyncio
from collections.abc import Callable, Iterable

from stoker_api.node_workload import NodeWorkload
from stoker_api.tuning import NodeRuleFigures
from stoker_sidecar.agent.acting import NodeActing
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_sidecar.agent.number_trials import CountReader, NumberTrials
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.rule_trials import RuleTrials
from stoker_sidecar.agent.tuning_figures import RuleMemory, rule_figures
from stoker_sidecar.agent.tuning_profiles import TuningProfiles
from stoker_sidecar.tuning.mount_read_ahead import MountReadAhead
from stoker_sidecar.volumes.node_volumes import NodeVolumes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.rules.facts import SystemFacts


class NodeRules:
    """What is chosen on a node: by profiles, trials of rules, and numbers, each a TuningSource over the one before.

    ``workloads``: the rows of the node's pods. ``reads``: what was read of a Dataset so far. ``system``: what is known
    of the node.
    """

    def __init__(
        self,
        profiles: TuningProfiles,
        learning: NodeLearning,
        plan: NodePlan,
        folders: CacheFolders,
        volumes: NodeVolumes,
        *,
        workloads: Callable[[], Iterable[NodeWorkload]],
        reads: CountReader,
        system: Callable[[], SystemFacts],
    ) -> None:
        self._profiles = profiles
        self._plan = plan
        self._trials = RuleTrials(profiles, plan, learning, workloads)
        settled = self._trials.is_settled
        self._numbers = NumberTrials(self._trials, learning, plan.name_of, reads, plan.changes, settled)
        self.acting = NodeActing(plan, folders, self._numbers, workloads, system)
        tuner = self.acting.tuner
        self._read_ahead = MountReadAhead(
            volumes.mount_root, volumes.mounted.served, tuner.in_force, (plan.changes, tuner.news)
        )
        self._memory = RuleMemory(profiles)

    async def run(self) -> None:
        """Put rules in force and try them, until cancelled."""
        tuner = self.acting.tuner
        async with asyncio.TaskGroup() as tasks:
            for part in (
                self._profiles.run(),
                self.acting.run(),
                self._read_ahead.run(),
                self._trials.run(tuner),
                self._numbers.run(tuner),
            ):
                tasks.create_task(part)

    def figures(self) -> tuple[NodeRuleFigures, ...]:
        """Return what each rule came to, for the status."""
        here = {row.uid for row in self._plan.datasets}
        return rule_figures(self._memory.of(self.acting.tuner.in_force, here), self._trials.helped)
