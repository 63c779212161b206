from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry, generate_latest

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.workload_totals import PHASES
from stoker_sidecar.agent.http.observation_metrics import LearningCollector
from stoker_sidecar.agent.http.tuning_http import TuningHttp
from stoker_sidecar.agent.learning.node_learning import NodeLearning
from stoker_sidecar.agent.learning.tuning_history import HistoryKind, TuningHistory
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.documents.assembly import builtin_rules
from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict, WindowFigures
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase
from tests.support.cases import cases
from tests.support.tasks import background
from tests.support.waiting import eventually

CHANGE = Change(
    "c1", 10.0, "vision/imagenet", "v1", "u1", TrainingPhase.TRAINING, AccessPattern.SHUFFLED, "prefetch_depth",
    64, 512, "ahead", "vision/resnet-0",
)  # fmt: skip
FIGURES = WindowFigures(6, 1000.0)
HURT = ChangeOutcome(CHANGE, 20.0, ChangeVerdict.HURT, -0.5, -0.6, -0.4, FIGURES, FIGURES, taken_back=True)


class LearningNode:
    """The learning component of a node, and the known workloads."""

    def __init__(self, folder: Path) -> None:
        self.rows: list[NodeWorkload] = []
        self.now = 0.0
        self.wall = 1000.0
        self.opened: dict[str, float] = {}
        self.news = Changes()
        self.history = TuningHistory(folder / "tuning.db")
        self.learning = NodeLearning(self.history, self.news, lambda: self.wall, lambda: self.now)

    def does(self, phase: str, reads: int = 0, uid: str = "u1", **fields: Any) -> None:
        self.rows = [NodeWorkload(pod="vision/resnet-0", uid=uid, phase=phase, reads=reads, **fields)]
        self.learning.look(self.rows, {})

    def reads(self, seconds: float = 10.0, **rates: float) -> None:
        """Let pods read for some seconds, at ``rates`` files per second, and run the learner."""
        self.now += seconds
        self.opened = {uid: self.opened.get(uid, 0.0) + rate * seconds for uid, rate in rates.items()}
        pods = {uid: NodeWorkload(pod=f"vision/{uid}", uid=uid, datasets=("vision/imagenet",)) for uid in rates}
        self.rows = [row.model_copy(update={"phase": "Training", "stall_percent": 10}) for row in pods.values()]
        self.learning.look(self.rows, self.opened)

    def metrics(self) -> str:
        registry = CollectorRegistry()
        registry.register(LearningCollector(self.learning, lambda: self.rows))
        return generate_latest(registry).decode()


@pytest.fixture
def node(tmp_path: Path) -> LearningNode:
    return LearningNode(tmp_path)


async def test_what_a_change_came_to_is_learned_from_after_a_restart(node: LearningNode, tmp_path: Path) -> None:
    async with background(node.learning.run(lambda: node.rows, dict)):
        node.learning.decided(HURT)
        node.news.mark()
        await eventually(lambda: bool(node.history.rows()))
    again = LearningNode(tmp_path)
    async with background(again.learning.run(lambda: again.rows, dict)):
        await eventually(lambda: bool(again.learning.learner.why_not(replace(CHANGE, id="c2"))))

    assert "hurt this workload before" in again.learning.learner.why_not(replace(CHANGE, id="c2"))


async def test_phases_and_what_was_foreseen_of_them_are_in_the_history(node: LearningNode) -> None:
    for epoch in range(3):
        node.does("Training", 1000 * epoch + 100, splits=("train", "validation"))
        node.wall += 60
        node.does("Validation", 1000 * epoch + 900, splits=("train", "validation"))
        node.wall += 60
    await node.learning.write()
    phases = node.history.rows(kind=HistoryKind.PHASE)
    predictions = [row.wire() for row in node.history.rows(kind=HistoryKind.PREDICTION)]

    assert len(phases) == 6
    assert [row["hit"] for row in predictions] == [True] * 5
    assert predictions[0]["wants"] == "validation"
    assert node.learning.phases.hits == {True: 5}


def test_a_phase_that_goes_on_is_no_news(node: LearningNode) -> None:
    for reads in range(5):
        node.does("Training", reads)

    assert node.learning.phases.changes == {"Training": 1}


def test_a_pod_that_says_another_phase_each_second_fills_no_history(node: LearningNode) -> None:
    rows = []
    for second in range(40):
        says = NodeWorkload(pod="vision/a", uid="a", phase=("Training", "Validation")[second % 2])
        rows += node.learning.phases.saw([says], 1000.0 + second)

    assert len([row for row in rows if row.kind is HistoryKind.PHASE]) == 4
    assert len(rows) <= 8


def test_a_phase_that_begins_soon_after_another_one_and_lasts_is_in_the_history(node: LearningNode) -> None:
    says = [("Initialization", 0.0), ("Training", 2.0), ("Training", 6.0), ("Training", 12.0), ("Training", 30.0)]
    rows = []
    for phase, second in says:
        rows += node.learning.phases.saw([NodeWorkload(pod="vision/a", uid="a", phase=phase)], 1000.0 + second)

    assert [row.wire()["new"] for row in rows if row.kind is HistoryKind.PHASE] == ["Initialization", "Training"]


def test_the_phases_are_those_of_the_vocabulary() -> None:
    assert tuple(phase.value for phase in TrainingPhase) == PHASES


def test_a_workload_without_a_row_is_forgotten(node: LearningNode) -> None:
    node.does("Training")
    node.does("Training", uid="u2")
    node.does("Training")

    assert node.learning.phases.changes["Training"] == 3


def test_a_row_shows_the_last_change_and_what_it_gained(node: LearningNode) -> None:
    row = NodeWorkload(pod="vision/resnet-0", uid="u1")
    node.learning.decided(HURT)
    shown = node.learning.shown(row)

    assert (shown.tuned, shown.gain_percent) == ("prefetch_depth 64 to 512: hurt, taken back (ahead)", -50)
    assert node.learning.shown(row.model_copy(update={"uid": "u2"})).tuned == ""


def test_metrics_have_words_of_closed_sets_for_labels(node: LearningNode) -> None:
    node.learning.decided(HURT)
    node.does("Training")
    text = node.metrics()

    assert 'stoker_workloads{phase="Training"} 1.0' in text
    assert text.count("stoker_workloads{") == len(PHASES)
    assert 'stoker_tuning_changes_total{knob="prefetch_depth",verdict="hurt"} 1.0' in text
    assert "vision" not in text


def test_a_phase_that_is_none_counts_as_unknown(node: LearningNode) -> None:
    node.does("Resting")

    assert 'stoker_workloads{phase="Unknown"} 1.0' in node.metrics()
    assert node.learning.phases.changes.total() == 0


@asynccontextmanager
async def served(node: LearningNode) -> AsyncIterator[aiohttp.ClientSession]:
    http = TuningHttp(node.learning, lambda: node.rows, builtin_rules)
    async with TestServer(http.application()) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        yield session


async def test_the_pages_show_totals_rules_and_history(node: LearningNode) -> None:
    node.learning.decided(HURT)
    node.learning.learner.learn(HURT)
    node.does("Training", epoch=3, step=70, items_per_second=10.0)
    await node.learning.write()
    async with served(node) as session:
        totals = await (await session.get("/ml/metrics")).json()
        rules = await (await session.get("/ml/rules")).json()
        history = await (await session.get("/ml/history", params={"kind": "change"})).json()

    assert (totals["totalWorkloads"], totals["activeWorkloads"], totals["totalBatches"]) == (1, 1, 70)
    assert totals["optimizationEventsByVerdict"] == {"hurt": 1}
    assert rules["learned"][0] | {"interval": []} == {
        "namespace": "vision", "rule": "ahead", "pattern": "shuffled", "changes": 1, "helped": 0, "hurt": 1,
        "successRate": 0.333, "interval": [], "leftOut": False,
    }  # fmt: skip
    assert {rule["id"] for rule in rules["rules"]} == {rule.id for rule in builtin_rules()}
    assert [row["verdict"] for row in history["history"]] == ["hurt"]


@cases(
    "query, sentence",
    ({"kind": "secrets"}, "kind is 'secrets': it must be one of change, phase, prediction"),
    ({"limit": "all"}, "limit is 'all': it must be a number from 1 to 1000"),
    ({"limit": "9" * 4300}, f"limit is '{'9' * 40}': it must be a number from 1 to 1000"),
)
async def test_a_wrong_question_is_answered_with_a_sentence(node: LearningNode, query: Any, sentence: str) -> None:
    async with served(node) as session:
        answer = await session.get("/ml/history", params=query)
        assert (answer.status, (await answer.json())["error"]) == (400, sentence)


def turned(node: LearningNode, change: Change, helps: float) -> list[float]:
    """Try a change as the tuner does: begin it, and apply the wanted value before each window. Return those values."""
    node.reads(u1=100.0, u2=50.0)
    assert node.learning.learner.begin(change)
    values = []
    while (value := node.learning.learner.value(change)) is not None:
        values.append(float(value))
        node.reads(u1=100.0 * (helps if value == change.new else 1.0), u2=50.0)
    return values


async def test_a_change_is_judged_by_what_its_workload_reads_in_windows(node: LearningNode) -> None:
    values = turned(node, CHANGE, helps=1.5)
    (outcome,) = node.learning.decisions

    assert set(values) == {64.0, 512.0}
    assert (outcome.verdict, outcome.taken_back, len(values)) == (ChangeVerdict.HELPED, False, 10)
    assert outcome.gain == pytest.approx(0.5)
    assert outcome.control_before is not None
    assert outcome.control_before.items_per_second == pytest.approx(50.0)
    assert node.learning.shown(node.rows[0]).gain_percent == 50


async def test_a_change_that_hurts_much_is_taken_back_after_four_windows(node: LearningNode) -> None:
    values = turned(node, CHANGE, helps=0.5)

    assert len(values) == 4
    assert node.learning.decisions[-1].taken_back


async def test_a_change_for_a_dataset_is_judged_by_all_who_read_it(node: LearningNode) -> None:
    turned(node, replace(CHANGE, workload=None), helps=2.0)

    assert node.learning.decisions[-1].before.items_per_second == pytest.approx(150.0)


def test_looks_in_between_end_no_window(node: LearningNode) -> None:
    node.reads(u1=100.0)
    node.learning.learner.begin(CHANGE)
    for _ in range(40):
        node.reads(1.0, u1=100.0)

    trial = node.learning.learner.trials
    assert [key.workload for key in trial] == ["u1"]


def test_the_trial_of_a_pod_that_is_gone_ends(node: LearningNode) -> None:
    node.reads(u1=100.0)
    node.learning.learner.begin(CHANGE)
    node.reads(u2=100.0)

    assert node.learning.learner.trials == ()


async def test_whoever_turns_knobs_is_told_when_a_window_has_ended(node: LearningNode) -> None:
    node.reads(u1=100.0)
    token = node.learning.turns.token()
    node.reads(u1=100.0)

    assert token.is_set()
