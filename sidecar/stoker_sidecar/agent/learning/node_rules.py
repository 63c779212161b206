"""The parts of a node that apply rules to its Datasets and test them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.profiles.tuning import MOST_TUNING_ROWS, NodeRuleFigures
from stoker_sidecar.agent.learning.node_learning import Counts, NodeLearning
from stoker_sidecar.agent.learning.rule_trials import RuleTrials
from stoker_sidecar.agent.learning.tuning_profiles import TuningProfiles
from stoker_sidecar.agent.learning.tuning_subjects import TuningSubjects
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.tuning.mount_read_ahead import MountReadAhead
from stoker_sidecar.tuning.source import TuningSource
from stoker_sidecar.tuning.tuner import TuningInForce
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.node_volumes import NodeVolumes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.rules.facts import SystemFacts


class NodeRules:
    """The tuning choices of a node: profiles, and trials of their rules.

    ``workloads``: the rows of the node's pods. ``system``: facts of the node.
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
        system: Callable[[], SystemFacts],
    ) -> None:
        self._profiles = profiles
        self._plan = plan
        self._trials = RuleTrials(profiles, plan, learning, workloads)
        self.acting = TuningSubjects(plan, folders, self._trials, workloads, system)
        tuner = self.acting.tuner
        self._read_ahead = MountReadAhead(
            volumes.mount_root, volumes.mounted.served, tuner.in_force, (plan.changes, tuner.news)
        )
        self._memory = RuleMemory(profiles)

    @property
    def counts(self) -> Counts:
        """The windows that count for the trials, for ``NodeLearning.run``."""
        return self._trials.counts

    async def run(self) -> None:
        """Apply rules and run their trials, until cancelled."""
        tuner = self.acting.tuner
        async with asyncio.TaskGroup() as tasks:
            for part in (
                self._profiles.run(),
                self.acting.run(),
                self._read_ahead.run(),
                self._trials.run(tuner),
            ):
                tasks.create_task(part)

    def figures(self) -> tuple[NodeRuleFigures, ...]:
        """Return each rule's figures, for the status."""
        here = {row.uid for row in self._plan.datasets}
        return rule_figures(self._memory.of(self.acting.tuner.in_force, here), self._trials.helped)


_MOST_VERSIONS = 1000  # versions to remember after they are complete


class RuleMemory:
    """Figures of rules for this node's versions, kept after a version is complete and no longer tuned.

    A small Dataset is complete within a second, and without this memory its figures would be lost. ``source``: the
    current choices; figures of earlier profiles are dropped.
    """

    def __init__(self, source: TuningSource) -> None:
        self._source = source
        self._last: dict[VersionKey, TuningInForce] = {}

    def of(self, in_force: Mapping[VersionKey, TuningInForce], here: Collection[str]) -> tuple[TuningInForce, ...]:
        """Return the current and remembered tunings of the Datasets with the UIDs ``here``."""
        for version, now in in_force.items():
            self._last.pop(version, None)
            self._last[version] = now
        for version in tuple(self._last):
            if version not in in_force and not self._stands(version, here):
                del self._last[version]
        while len(self._last) > _MOST_VERSIONS:
            del self._last[next(iter(self._last))]
        return tuple(self._last.values())

    def _stands(self, version: VersionKey, here: Collection[str]) -> bool:
        uid, _ = version
        return uid in here and self._source.choice(uid).profile == self._last[version].choice.profile


def rule_figures(
    in_force: Iterable[TuningInForce], helped: Mapping[tuple[str, str], int]
) -> tuple[NodeRuleFigures, ...]:
    """Return a row for each rule of each profile, summed over versions; rules with the most files come first. Pure.

    ``helped``: number of trials in which a rule helped, by profile and rule.
    """
    matched: Counter[tuple[str, str]] = Counter()
    acted: Counter[tuple[str, str]] = Counter()
    for version in in_force:
        for count in version.rules:
            key = version.choice.profile, count.rule
            matched[key] += count.matched
            acted[key] += count.acted
    first = sorted(matched, key=lambda key: (-matched[key], key))[:MOST_TUNING_ROWS]
    return tuple(
        NodeRuleFigures(profile=key[0], rule=key[1], matched=matched[key], acted=acted[key], helped=helped.get(key, 0))
        for key in first
    )
