"""Prefetch depths from rules are tried on a simulated fetcher. A harmful change is reverted."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_sidecar.agent.learning.node_learning import NodeLearning
from stoker_sidecar.agent.learning.node_rules import rule_figures
from stoker_sidecar.agent.learning.rule_trials import RuleTrials
from stoker_sidecar.agent.learning.tuning_history import TuningHistory
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.tuning.tuner import Tuner, TuningSubject
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_hints import Tune
from stoker_tuning.learning.changes import ChangeVerdict
from stoker_tuning.rules.facts import Surroundings, WorkloadFacts
from stoker_tuning.rules.spec import ActionSpec, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, RuleLayer, TrainingPhase
from tests.support.versions import VersionFolder

VERSION = ("uid", "d" * 64)
DIGITS = NodeDataset(namespace="vision", name="digits", uid="uid", source=Source(uri="s3://b/p"), version=VERSION[1])
WINDOW = 10.0


def rule(depth: int = 512, name: str = "ahead") -> RuleSpec:
    action = ActionSpec(ActionType.PREFETCH, ActionTarget.FILE, {"prefetch_depth": depth})
    return RuleSpec(name, RuleOrigin("fast", RuleLayer.CUSTOM), (), (action,))


class TrialNode:
    """A node with one Dataset that one pod reads. ``rates``: files per second by prefetch depth."""

    def __init__(self, root: Path, choice: TuningChoice, rates: dict[int | None, float]) -> None:
        self.chosen, self.rates = choice, rates
        self.root, self.now, self.opened, self.reads = root, 1000.0, 0.0, True
        self.around: tuple[Surroundings, ...] = (Surroundings(workload=WorkloadFacts(phase=TrainingPhase.TRAINING)),)
        self.whole = False
        self.told: list[int | None] = [None]
        plan = NodePlan()
        plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n"), spec=NodeCacheSpec(datasets=(DIGITS,))))
        history = TuningHistory(root / "tuning.db")
        self.learning = NodeLearning(history, Changes(), lambda: self.now, lambda: self.now)
        self.trials = RuleTrials(self, plan, self.learning, self.rows, lambda: self.now)
        folders = CacheFolders([root])
        self.tuner = Tuner(self.trials, folders, self.subjects, self.tell, Changes(), lambda: self.now)

    def choice(self, dataset_uid: str) -> TuningChoice:
        return self.chosen

    def subjects(self) -> Iterator[TuningSubject]:
        if not self.whole:
            yield TuningSubject(VERSION, self.around)

    def tell(self, order: Tune) -> bool:
        ahead = order.knobs[-1].ahead_files if order.knobs else None
        if ahead == self.told[-1]:
            return False
        self.told.append(ahead)
        return True

    def rows(self) -> list[NodeWorkload]:
        rate = self.rates[self.told[-1]] if self.reads else 0.0
        pod = NodeWorkload(pod="vision/a", uid="p", datasets=("vision/digits",), items_per_second=rate)
        return [pod] if self.reads else []

    async def settle(self) -> None:
        """Run the tuner and the trials until both are idle."""
        for _ in range(3):
            await self.tuner.look()
            self.trials.look(self.tuner.in_force)
        await self.tuner.look()

    async def windows(self, most: int) -> int:
        """Let windows pass until no trial is left. Return their number."""
        self.learning.look(self.rows(), {"p": self.opened}, self.trials.counts)
        await self.settle()
        for passed in range(most):
            if not self.learning.learner.trials:
                return passed
            await self.window()
        return most

    async def window(self) -> None:
        self.now += WINDOW
        self.opened += WINDOW * self.rates[self.told[-1]]
        self.learning.look(self.rows(), {"p": self.opened}, self.trials.counts)
        await self.settle()

    def helped(self) -> int:
        (row,) = rule_figures(self.tuner.in_force.values(), self.trials.helped)
        return row.helped

    def shown(self) -> NodeWorkload:
        return self.learning.shown(self.rows()[0])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    VersionFolder(tmp_path / "datasets" / VERSION[0] / "versions" / VERSION[1], {"a/1": b"1", "a/2": b"2"})
    return tmp_path


HURTS: dict[int | None, float] = {None: 100.0, 512: 50.0, 128: 100.0}
HELPS: dict[int | None, float] = {None: 100.0, 512: 150.0, 128: 100.0}
FAST = TuningChoice((rule(),), "fast", 1)


async def test_a_rule_that_hurts_is_taken_back_after_five_windows(root: Path) -> None:
    node = TrialNode(root, FAST, HURTS)
    passed = await node.windows(60)
    for _ in range(3):
        await node.window()

    assert passed <= 5  # four compared windows; the first can have begun before the change
    assert node.told[-1] is None
    assert node.shown().tuned == "prefetch_depth unset to 512: hurt, taken back (ahead)"
    assert node.shown().gain_percent == -50
    assert node.learning.changes["prefetch_depth", "hurt"] == 1
    assert node.helped() == 0


async def test_a_rule_that_helps_stays(root: Path) -> None:
    node = TrialNode(root, FAST, HELPS)
    passed = await node.windows(60)

    assert passed <= 11
    assert (node.told[-1], node.helped(), node.shown().gain_percent) == (512, 1, 50)
    assert node.learning.decisions[-1].verdict is ChangeVerdict.HELPED
    assert await node.windows(60) == 0  # the result is known


@pytest.mark.parametrize(("rates", "ahead"), [(HURTS, None), (HELPS, 512)])
async def test_what_is_in_the_history_holds_after_a_restart(
    root: Path, rates: dict[int | None, float], ahead: int | None
) -> None:
    node = TrialNode(root, FAST, rates)
    await node.windows(60)
    await node.learning.write()
    again = TrialNode(root, FAST, rates)
    await again.learning.remember()

    assert await again.windows(60) == 0
    assert again.told[-1] == ahead
    assert again.helped() == (ahead is not None)


async def test_a_rule_that_says_something_else_is_tried_anew(root: Path) -> None:
    node = TrialNode(root, FAST, HURTS)
    await node.windows(60)
    node.chosen = TuningChoice((rule(128),), "fast", 2)
    await node.settle()

    assert node.learning.learner.trials


async def test_what_hurt_stays_left_out_where_another_rule_of_the_document_changes(root: Path) -> None:
    node = TrialNode(root, FAST, HURTS)
    await node.windows(60)
    before = len(node.told)
    node.chosen = replace(FAST, generation=2)
    await node.settle()

    assert (len(node.told), node.learning.learner.trials) == (before, ())


@pytest.mark.parametrize("choice", [replace(FAST, learns=False), replace(FAST, off=True), TuningChoice()])
async def test_nothing_is_tried_where_learning_is_off_or_nothing_turned(root: Path, choice: TuningChoice) -> None:
    assert await TrialNode(root, choice, HURTS).windows(60) == 0


async def test_nothing_is_tried_where_nobody_reads(root: Path) -> None:
    node = TrialNode(root, FAST, HURTS)
    node.reads = False

    assert await node.windows(60) == 0


async def test_the_trial_of_a_version_that_is_whole_ends(root: Path) -> None:
    node = TrialNode(root, FAST, HELPS)
    node.learning.look(node.rows(), {"p": 0.0}, node.trials.counts)
    await node.settle()
    assert node.learning.learner.trials
    node.whole = True
    await node.settle()

    assert node.learning.learner.trials == ()


async def test_windows_in_which_readers_do_something_else_do_not_count(root: Path) -> None:
    node = TrialNode(root, FAST, HURTS)
    node.learning.look(node.rows(), {"p": 0.0}, node.trials.counts)
    await node.settle()
    node.around = (Surroundings(workload=WorkloadFacts(phase=TrainingPhase.VALIDATION)),)
    for _ in range(20):
        await node.window()

    assert not node.learning.decisions


async def test_a_rule_that_makes_no_difference_is_not_tried_for_long(root: Path) -> None:
    same = (rule(name="first"), rule(name="second"))
    node = TrialNode(root, TuningChoice(same, "fast", 1), HELPS)

    assert await node.windows(60) <= 4
    assert not node.learning.decisions


async def test_trials_keep_within_their_pace(root: Path) -> None:
    node = TrialNode(root, FAST, {None: 100.0, 512: 100.5})
    for _ in range(30):
        await node.window()

    assert len(node.told) <= 1 + 5 * 8


@pytest.mark.expected_logs("cannot be followed")
async def test_a_source_in_trouble_ends_the_trial_and_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = TrialNode(root, FAST, HELPS)
    node.learning.look(node.rows(), {"p": 0.0}, node.trials.counts)
    await node.settle()

    def broken(uid: str) -> TuningChoice:
        raise RuntimeError("odd")

    monkeypatch.setattr(node, "choice", broken)
    await node.settle()

    assert node.learning.learner.trials == ()
