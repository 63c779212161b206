"""A node finds a number where a rule asks for Adaptive, and takes back what hurts: with a simulated fetcher."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_api.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.node_dataset import NodeDataset
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache, NodeCacheSpec
from stoker_sidecar.agent.core.history_rows import HistoryKind
from stoker_sidecar.agent.core.number_windows import WindowTimes
from stoker_sidecar.agent.core.read_counts import ReadCount
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_sidecar.agent.number_trials import MOST_IDLE, PATIENCE, NumberTrials
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.rule_trials import RuleTrials
from stoker_sidecar.agent.tuning_history import TuningHistory
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.tuning.tuner import Tuner, TuningSubject
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Tune
from stoker_tuning.learning.changes import ChangeVerdict
from stoker_tuning.rules.facts import Surroundings, WorkloadFacts
from stoker_tuning.rules.spec import ActionSpec, KnobValue, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import (
    ActionTarget,
    ActionType,
    OptimizationLevel,
    PrefetchStrategy,
    RuleLayer,
    TrainingPhase,
)
from tests.support.versions import VersionFolder

VERSION = ("uid", "d" * 64)
DIGITS = NodeDataset(namespace="vision", name="digits", uid="uid", source=Source(uri="s3://b/p"), version=VERSION[1])
TIMES = WindowTimes(5.0, 5.0)
Rate = Callable[[int], float]


def rule(name: str = "few", **knobs: KnobValue) -> RuleSpec:
    action = ActionSpec(ActionType.PREFETCH, ActionTarget.FILE, knobs)
    return RuleSpec(name, RuleOrigin("fast", RuleLayer.CUSTOM), (), (action,))


FEW = rule(prefetch_depth=4, strategy=PrefetchStrategy.ADAPTIVE)
PROFILE = TuningChoice((FEW,), "fast", 1)


def saturating(depth: int) -> float:
    return 1000.0 * depth / (depth + 64)


def falling(depth: int) -> float:
    return 1000.0 / (1 + depth / 16)


def flat(depth: int) -> float:
    return 500.0


class FindingNode:
    """A node with one Dataset of small files, read at ``rate`` files a second by how many are fetched ahead."""

    def __init__(self, root: Path, choice: TuningChoice, rate: Rate) -> None:
        self.chosen, self.rate = choice, rate
        self.now, self.opens, self.reads, self.whole = 1000.0, 0.0, True, False
        self.around = (Surroundings(workload=WorkloadFacts(phase=TrainingPhase.TRAINING)),)
        self.seen_by_rules = True
        self.ahead: int | None = None
        self.told: list[int | None] = []
        self._noise = random.Random(1)
        plan = NodePlan()
        plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n"), spec=NodeCacheSpec(datasets=(DIGITS,))))
        self.history = TuningHistory(root / "tuning.db")
        self.learning = NodeLearning(self.history, Changes(), self.clock, self.clock)
        self.rules = RuleTrials(self, plan, self.learning, self.rows, self.clock)
        self.numbers = NumberTrials(
            self.rules,
            self.learning,
            plan.name_of,
            self.count,
            Changes(),
            self.rules.is_settled,
            TIMES,
            self.clock,
            self.clock,
        )
        turns = TIMES.turns_a_minute
        self.tuner = Tuner(self.numbers, CacheFolders([root]), self.subjects, self.tell, Changes(), self.clock, turns)

    def clock(self) -> float:
        return self.now

    def choice(self, dataset_uid: str) -> TuningChoice:
        return self.chosen

    def subjects(self) -> Iterator[TuningSubject]:
        yield TuningSubject(VERSION, self.around, whole=self.whole)

    def tell(self, order: Tune) -> bool:
        ahead = order.knobs[-1].ahead_files if order.knobs else None
        self.told.append(ahead)
        changed, self.ahead = ahead != self.ahead, ahead
        return changed

    def count(self, uid: str, *, large: bool) -> ReadCount:
        return ReadCount(self.now, self.opens)

    def rows(self) -> list[NodeWorkload]:
        pod = NodeWorkload(
            pod="vision/a", uid="p", datasets=("vision/digits",), items_per_second=10.0 * self.seen_by_rules
        )
        return [pod] if self.reads else []

    async def second(self) -> None:
        self.now += 1.0
        if self.reads:
            noise = math.exp(self._noise.gauss(0, 0.05))
            self.opens += self.rate(64 if self.ahead is None else self.ahead) * noise
        await self.tuner.look()
        self.rules.look(self.tuner.in_force)
        self.numbers.look(self.tuner.in_force)
        await self.tuner.look()

    async def windows(self, number: int) -> None:
        for _ in range(int(number * (TIMES.left_out + TIMES.counted))):
            await self.second()

    @property
    def searches(self) -> bool:
        return bool(self.learning.learner.on_trial)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    VersionFolder(tmp_path / "datasets" / VERSION[0] / "versions" / VERSION[1], {"a/1": b"1", "a/2": b"2"})
    return tmp_path


async def test_from_a_bad_beginning_a_good_value_is_found_and_shown(root: Path) -> None:
    node = FindingNode(root, PROFILE, saturating)
    await node.windows(120)

    first = node.learning.decisions[0]
    assert (first.verdict, first.change.origin, first.change.dataset) == (
        ChangeVerdict.HELPED,
        "Adaptive",
        "vision/digits",
    )
    assert saturating(int(first.change.new)) >= 0.9 * saturating(4096)
    assert node.learning.changes["prefetch_depth", "helped"] >= 1
    shown = node.learning.shown(node.rows()[0])
    assert shown.tuned.startswith("prefetch_depth ")
    assert shown.tuned.endswith("(Adaptive)")


async def test_what_was_found_is_in_the_history_and_in_force_after_a_restart(root: Path) -> None:
    node = FindingNode(root, PROFILE, saturating)
    await node.windows(120)
    await node.learning.write()
    assert node.history.rows(kind=HistoryKind.CHANGE, about="vision/digits")
    again = FindingNode(root, PROFILE, saturating)
    await again.learning.remember()
    await again.windows(2)

    adopted = max(int(each.change.new) for each in node.learning.decisions if each.verdict is ChangeVerdict.HELPED)
    assert again.ahead == adopted
    assert again.told.count(adopted) == 1
    assert not again.learning.decisions


async def test_what_is_worse_is_not_adopted(root: Path) -> None:
    node = FindingNode(root, PROFILE, falling)
    await node.windows(200)

    assert all(each.verdict is not ChangeVerdict.HELPED for each in node.learning.decisions)
    assert node.numbers.choice("uid").numbers == ()


async def test_what_begins_to_hurt_after_it_was_adopted_is_taken_back(root: Path) -> None:
    node = FindingNode(root, PROFILE, saturating)
    await node.windows(150)
    assert node.ahead != 4
    node.rate = falling
    await node.windows(60)

    assert node.learning.decisions[-1].verdict is ChangeVerdict.HURT
    assert node.ahead == 4


async def test_trying_costs_no_more_than_a_twentieth_where_nothing_is_better(root: Path) -> None:
    node = FindingNode(root, PROFILE, falling)
    await node.windows(100)

    assert node.opens >= 0.95 * falling(4) * 100 * (TIMES.left_out + TIMES.counted)


@pytest.mark.parametrize(
    "choice",
    [
        replace(PROFILE, adapts=False),
        replace(PROFILE, learns=False),
        replace(PROFILE, off=True),
        TuningChoice((rule(strategy=PrefetchStrategy.BALANCED),), "fast", 1),
        TuningChoice((rule(prefetch_depth=4), rule("other", strategy=PrefetchStrategy.ADAPTIVE)), "fast", 1),
    ],
    ids=["auto_tuning", "metrics_collection", "enabled", "not Adaptive", "another rule's word"],
)
async def test_nothing_is_found_where_it_is_off_or_nobody_asks(root: Path, choice: TuningChoice) -> None:
    node = FindingNode(root, choice, saturating)
    await node.windows(20)

    assert node.numbers.choice("uid").numbers == ()
    assert not any(each.change.origin == "Adaptive" for each in node.learning.decisions)


async def test_no_more_is_tried_than_the_class_of_the_dataset_allows(root: Path) -> None:
    node = FindingNode(root, replace(PROFILE, most_level=OptimizationLevel.BALANCED), saturating)
    await node.windows(120)

    assert {ahead for ahead in node.told if ahead is not None} <= set(range(129))
    assert node.learning.decisions


async def test_nothing_is_tried_where_nobody_reads_or_all_is_here(root: Path) -> None:
    node = FindingNode(root, PROFILE, saturating)
    node.reads = False
    await node.windows(5)
    assert not node.searches
    node.reads = node.whole = True
    await node.windows(5)

    assert not node.searches


async def test_a_search_is_given_up_when_reading_ends(root: Path) -> None:
    node = FindingNode(root, PROFILE, saturating)
    await node.windows(4)
    assert node.searches
    node.reads = False
    await node.windows(MOST_IDLE + 2)

    assert not node.searches
    assert node.ahead == 4


async def test_rules_are_tried_before_numbers_are(root: Path) -> None:
    both = (FEW, rule("sizes", prefetch_size=0))
    node = FindingNode(root, replace(PROFILE, rules=both), saturating)
    await node.windows(3)

    trials = node.learning.learner.trials
    assert [key.dataset for key in trials] == ["vision/digits"]
    assert node.learning.learner.tuned("vision/digits", None, "prefetch_depth") is None


async def test_rules_that_cannot_be_judged_are_not_waited_for_long(root: Path) -> None:
    node = FindingNode(root, replace(PROFILE, rules=(FEW, rule("sizes", prefetch_size=0))), saturating)
    node.seen_by_rules = False
    await node.windows(int(PATIENCE / 10) - 1)
    assert not node.searches
    await node.windows(3)

    assert node.learning.learner.tuned("vision/digits", None, "prefetch_depth") is not None


async def test_the_windows_of_rules_do_not_count_for_numbers(root: Path) -> None:
    node = FindingNode(root, PROFILE, saturating)
    await node.windows(4)
    value = node.learning.learner.tuned("vision/digits", None, "prefetch_depth")
    for _ in range(5):
        node.now += 10.0
        node.learning.look(node.rows(), {"p": node.now})

    assert node.learning.learner.tuned("vision/digits", None, "prefetch_depth") == value


async def test_windows_in_which_readers_begin_to_do_something_else_do_not_count(root: Path) -> None:
    node = FindingNode(root, PROFILE, flat)
    await node.windows(2)
    for number in range(60):
        phase = (TrainingPhase.VALIDATION, TrainingPhase.TRAINING)[number // 4 % 2]
        node.around = (Surroundings(workload=WorkloadFacts(phase=phase)),)
        await node.second()

    assert not node.learning.decisions


@pytest.mark.expected_logs("cannot be followed")
async def test_a_source_in_trouble_ends_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = FindingNode(root, PROFILE, saturating)
    await node.windows(2)

    def broken(uid: str) -> TuningChoice:
        raise RuntimeError("odd")

    monkeypatch.setattr(node, "choice", broken)
    await node.second()

    assert VERSION in node.tuner.in_force
