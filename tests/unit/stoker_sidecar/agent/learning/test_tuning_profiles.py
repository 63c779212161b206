"""The tuning of a node's Datasets while TuningProfiles are added, changed, broken and deleted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.names import ANNOTATION_TUNING
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_api.profiles.tuning import MOST_NODE_PROFILES, NodeProfile, NodeTuning
from stoker_kube.resources import TUNING_PROFILES
from stoker_sidecar.agent.learning.profile_reading import RulesInForce, built_in, profile_rows
from stoker_sidecar.agent.learning.tuning_profiles import TuningProfiles
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.tuning.source import TuningChoice, TuningSource
from stoker_tuning.documents.assembly import plugin_document
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.frameworks.answers import PluginAnswer
from stoker_tuning.vocabulary import OptimizationLevel, RuleLayer
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually

SECONDS = 30.0
GOOD: dict[str, Any] = {"rules": [{"id": "shards", "actions": [{"type": "prefetch"}]}]}
BETTER: dict[str, Any] = {"rules": [{"id": "better", "actions": [{"type": "prefetch"}]}]}
BAD: dict[str, Any] = {"rules": [{"id": "shards", "actions": [{"type": "prefech"}]}]}


class Node:
    """A node with one Dataset, and an API server with profiles."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.plan = NodePlan()
        self.plugins: tuple[TuningDocument, ...] = ()
        self.profiles = TuningProfiles(self.kube, self.plan, lambda: self.plugins)

    def tell(self, *, node: str = "", **tuning: Any) -> None:
        """Take a plan in which the Dataset has this tuning. ``node``: the node's annotation."""
        told = NodeTuning.model_validate(tuning)
        dataset = NodeDataset(namespace="vision", name="digits", uid="u1", source=Source(uri="s3://b"), tuning=told)
        annotations = {ANNOTATION_TUNING: node} if node else {}
        spec = NodeCacheSpec(datasets=(dataset,))
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="a", annotations=annotations), spec=spec))

    async def write(self, spec: Any, name: str = "fast") -> None:
        await self.kube.apply(TUNING_PROFILES, {"metadata": {"name": name}, "spec": spec}, field_manager="admin")

    def choice(self) -> TuningChoice:
        return self.profiles.choice("u1")

    def row(self) -> NodeProfile | None:
        return next(iter(self.profiles.rows()), None)

    def rules(self) -> list[str]:
        """Return the rules that are not built in."""
        known = built_in()
        return [rule.id for rule in self.choice().rules if rule not in known]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    made = Node()
    running = asyncio.create_task(made.profiles.run())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def until(node: Node, generation: int, message: str = "") -> None:
    def is_so() -> bool:
        row = node.row()
        return row is not None and row.generation == generation and message in row.message

    await eventually(is_so, SECONDS)


async def in_force(node: Node, spec: Any = GOOD, **tuning: Any) -> None:
    """Put the profile ``fast`` into force for the Dataset."""
    await node.write(spec)
    node.tell(profile="fast", **tuning)
    await until(node, 1)


def test_it_is_a_tuning_source() -> None:
    source: TuningSource = Node().profiles
    assert source.choice("nobody").rules == built_in()


async def test_a_profile_goes_before_the_built_in_rules(node: Node) -> None:
    await in_force(node, level="Maximum", mostLevel="Aggressive")
    choice = node.choice()
    assert node.rules() == ["shards"]
    assert (choice.profile, choice.generation, choice.off) == ("fast", 1, False)
    assert (choice.level, choice.most_level) == (OptimizationLevel.MAXIMUM, OptimizationLevel.AGGRESSIVE)
    assert all(rule in choice.rules for rule in built_in())


async def test_a_change_counts_without_a_restart(node: Node) -> None:
    await in_force(node)
    await node.write(BETTER)
    await until(node, 2)
    assert node.rules() == ["better"]


@pytest.mark.expected_logs("TuningProfile fast: generation 2 cannot be read")
async def test_the_last_good_one_stays_in_force(node: Node) -> None:
    await in_force(node)
    await node.write(BAD)
    await until(node, 1, "generation 2 cannot be read: spec.rules[0].actions[0].type")
    assert node.rules() == ["shards"]
    await node.write(BETTER)
    await until(node, 3)
    assert node.rules() == ["better"]


@pytest.mark.expected_logs("TuningProfile fast: generation 1 cannot be read")
async def test_one_that_was_never_good_leaves_the_built_in_rules(node: Node) -> None:
    await node.write(BAD)
    node.tell(profile="fast")
    await until(node, 0, "the built-in rules alone apply")
    assert node.choice().rules == built_in()


@pytest.mark.expected_logs("TuningProfile fast does not exist")
async def test_one_that_is_deleted_leaves_the_built_in_rules(node: Node) -> None:
    await in_force(node)
    await node.kube.delete(TUNING_PROFILES, "fast")
    await until(node, 0, "TuningProfile fast does not exist")
    assert (node.choice().profile, node.rules()) == ("", [])


@pytest.mark.expected_logs("TuningProfile fast")
async def test_one_that_is_made_anew_and_wrong_has_nothing_of_the_old_one(node: Node) -> None:
    await in_force(node)
    await node.kube.delete(TUNING_PROFILES, "fast")
    await node.write(BAD)
    await until(node, 0, "generation 1 cannot be read")
    assert node.rules() == []


async def test_the_rules_in_force_are_those_of_all_datasets_each_once(node: Node) -> None:
    assert node.profiles.rules() == list(built_in())
    await in_force(node)
    assert [rule.id for rule in node.profiles.rules() if rule not in built_in()] == ["shards"]


async def test_a_template_is_put_to_use_with_a_profile_and_without(node: Node) -> None:
    await in_force(node, template="data_pipeline")
    assert node.choice().template == "data_pipeline"
    assert len(node.rules()) > 1
    node.tell(template="data_pipeline")
    await eventually(lambda: node.choice().template == "data_pipeline" and not node.profiles.rows(), SECONDS)
    assert node.rules()


async def test_a_template_that_nobody_knows_is_left_out(node: Node) -> None:
    await in_force(node, template="nix")
    assert (node.choice().template, node.rules()) == (None, ["shards"])


def environments(node: Node) -> set[str]:
    """Return the environments of the rules in force."""
    return {group for rule in node.choice().rules if (group := rule.origin.group).startswith("environment")}


async def test_the_clusters_environment_counts_without_a_profile(node: Node) -> None:
    assert environments(node) == set()
    node.tell(environment="production")
    await eventually(lambda: environments(node) == {"environment production"}, SECONDS)
    assert node.profiles.rows() == ()


async def test_a_profiles_own_environment_goes_before_the_clusters(node: Node) -> None:
    await in_force(node, GOOD | {"environment": "development"}, environment="production")
    assert environments(node) == {"environment development"}


async def test_a_profile_without_one_has_the_clusters_also_where_it_defines_it(node: Node) -> None:
    await in_force(
        node,
        GOOD | {"environments": [{"name": "lab", "settings": {"level": "Basic"}}]},
        environment="lab",
        template="data_pipeline",
    )
    assert environments(node) == {"environment lab"}
    assert node.choice().template == "data_pipeline"


@pytest.mark.expected_logs("the environment lab is neither in TuningProfile fast nor built in, so it is left out")
async def test_an_environment_that_nobody_knows_is_left_out_and_told(node: Node) -> None:
    await in_force(node, environment="lab", template="data_pipeline")
    assert environments(node) == set()
    assert node.choice().template == "data_pipeline"


async def test_a_dataset_or_a_node_is_turned_off(node: Node) -> None:
    node.tell(enabled=False)
    assert node.choice().off
    node.tell()
    assert not node.choice().off
    node.tell(node="Off")
    assert node.choice().off
    assert node.profiles.rows() == ()


async def test_equal_choices_are_equal_values(node: Node) -> None:
    await in_force(node)
    first = node.choice()
    assert node.choice() == first
    assert node.choice().rules is first.rules


def test_a_node_tells_of_a_bounded_number_of_profiles_the_wrong_ones_first() -> None:
    tunings = [NodeTuning(profile=f"p{number:02}") for number in range(40)]
    readings = {(one.profile, "", ""): RulesInForce(None, (), 1) for one in tunings}
    readings[("p39", "", "")] = RulesInForce(None, (), 0, message="it does not exist")
    rows = profile_rows(tunings, readings)
    assert (len(rows), rows[0].profile) == (MOST_NODE_PROFILES, "p39")


def odd_plugin() -> TuningDocument:
    rule = {"id": "odd-shards", "actions": [{"type": "prefetch"}]}
    template = {"id": "odd-template", "rules": [{"id": "of-it", "actions": [{"type": "prefetch"}]}]}
    return plugin_document(PluginAnswer("odd", (), {}, (rule,), (template,)))


async def test_rules_of_plug_ins_are_in_force_as_the_layer_of_frameworks_and_go_with_them(node: Node) -> None:
    node.tell()
    node.plugins = (odd_plugin(),)
    node.plan.changes.mark()
    await eventually(lambda: node.rules() == ["odd-shards"], SECONDS)
    (shown,) = (rule for rule in node.profiles.rules() if rule.id == "odd-shards")
    assert (shown.origin.layer, str(shown.origin)) == (RuleLayer.FRAMEWORK, "plugin-odd, framework odd")
    node.plugins = ()
    node.plan.changes.mark()
    await eventually(lambda: node.rules() == [], SECONDS)


async def test_a_profile_that_is_in_force_gets_the_rules_of_plug_ins_that_come_later(node: Node) -> None:
    await in_force(node)
    node.plugins = (odd_plugin(),)
    node.plan.changes.mark()
    await eventually(lambda: set(node.rules()) == {"shards", "odd-shards"}, SECONDS)


async def test_a_dataset_may_name_a_template_of_a_plug_in(node: Node) -> None:
    node.plugins = (odd_plugin(),)
    node.tell(template="odd-template")
    await eventually(lambda: "of-it" in node.rules(), SECONDS)
