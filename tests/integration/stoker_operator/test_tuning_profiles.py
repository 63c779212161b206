"""TuningProfiles on a real API server: the schema, the operator's conditions, and the plans of Datasets' nodes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import NodeProfile, NodeRuleFigures, NodeTuning
from stoker_api.profiles.tuningprofile import TuningProfile
from stoker_kube.errors import Invalid, NotFound
from stoker_kube.resources import NODE_CACHES, TUNING_PROFILES
from stoker_operator.core.classes.profiles import read_object
from stoker_operator.core.views.conditions import find
from stoker_tuning.documents.builtin_documents import builtin_sources
from stoker_tuning.vocabulary import OptimizationLevel
from tests.integration.stoker_operator.conftest import World
from tests.unit.stoker_operator.profiles import BAD, GOOD
from tests.unit.stoker_tuning.documents.test_random_documents import Writer


class Profiles:
    """The profiles of one test, named after it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.made: list[str] = []

    async def make(self, spec: Any, short: str = "fast") -> str:
        """Make a profile and return its name. Raises Invalid."""
        name = f"{short}-{self.world.namespace}"
        await self.world.kube.create(TUNING_PROFILES, {"metadata": {"name": name}, "spec": spec})
        self.made.append(name)
        return name

    async def until(self, name: str, status: str, generation: int = 1) -> TuningProfile:
        """Return the profile when its condition Accepted has this status for that generation."""

        def is_so(raw: dict[str, Any]) -> bool:
            found = find(TuningProfile.model_validate(raw).status.conditions, ConditionType.ACCEPTED)
            return found is not None and (found.status, found.observed_generation) == (status, generation)

        return TuningProfile.model_validate(await self.world.until(TUNING_PROFILES, name, is_so))


@pytest.fixture
async def profiles(world: World) -> AsyncIterator[Profiles]:
    made = Profiles(world)
    yield made
    for name in made.made:
        try:
            await world.kube.delete(TUNING_PROFILES, name)
        except NotFound:
            continue


async def test_a_profile_is_accepted_changed_and_kept(profiles: Profiles) -> None:
    name = await profiles.make(GOOD)
    accepted = await profiles.until(name, "True")
    assert (accepted.status.rule_count, accepted.spec) == (1, GOOD)
    await profiles.world.kube.patch(TUNING_PROFILES, name, {"spec": BAD})
    refused = await profiles.until(name, "False", 2)
    condition = find(refused.status.conditions, ConditionType.ACCEPTED)
    assert condition is not None
    assert "did you mean prefetch?" in condition.message
    assert refused.status.accepted_generation == 1


@pytest.mark.parametrize("source", builtin_sources().values(), ids=builtin_sources().keys())
async def test_documents_that_come_with_stoker_go_through_the_schema_as_they_are(
    profiles: Profiles, source: str
) -> None:
    spec = yaml.safe_load(source)["spec"]
    name = await profiles.make(spec)
    found = await profiles.until(name, "True")
    assert found.spec == spec


async def test_an_unknown_property_is_kept_and_told(profiles: Profiles) -> None:
    rule = GOOD["rules"][0] | {"prority": 3}
    name = await profiles.make({"rules": [rule]})
    found = await profiles.until(name, "False")
    assert found.spec["rules"][0]["prority"] == 3


async def test_what_the_door_takes_the_schema_takes(profiles: Profiles) -> None:
    for seed in range(30):
        document = Writer(seed).document()
        body = {"metadata": {"name": f"r{seed}-{profiles.world.namespace}"}, "spec": document["spec"]}
        good = not read_object(body).problem
        try:
            await profiles.world.kube.create(TUNING_PROFILES, body)
        except Invalid:
            assert not good, document
        else:
            profiles.made.append(body["metadata"]["name"])


def entry(raw: dict[str, Any], namespace: str) -> NodeTuning | None:
    """Return a node's plan of the test's own Dataset, because the node may have more Datasets."""
    rows = NodeCache.model_validate(raw).spec.datasets
    return next((row.tuning for row in rows if row.namespace == namespace), None)


async def test_a_datasets_choice_reaches_its_node_and_its_status(profiles: Profiles) -> None:
    world = profiles.world
    node = await world.add_node()
    name = f"fast-{world.namespace}"
    await world.add_dataset(tuning={"profile": name, "template": "mine", "level": "Maximum"})
    await world.until_dataset(lambda one: _tuned(one.status.conditions) == ("False", Reason.PROFILE_NOT_FOUND))
    await profiles.make(GOOD)
    await world.until_dataset(lambda one: _tuned(one.status.conditions) == ("True", Reason.TUNED))
    told = NodeTuning(profile=name, template="mine", level=OptimizationLevel.MAXIMUM)
    await world.until(NODE_CACHES, node.node, lambda raw: entry(raw, world.namespace) == told)
    await world.until_dataset(lambda one: one.status.tuning == told)


def _tuned(conditions: Any) -> tuple[str, str] | None:
    found = find(conditions, ConditionType.TUNED)
    return None if found is None else (found.status, found.reason)


async def test_where_a_profile_is_and_what_came_of_it_is_rolled_up(profiles: Profiles) -> None:
    world = profiles.world
    node = await world.add_node()
    name = await profiles.make(GOOD)
    await world.add_dataset(tuning={"profile": name})
    await world.until(NODE_CACHES, node.node, lambda raw: entry(raw, world.namespace) is not None)
    node.profiles = (NodeProfile(profile=name, generation=1, datasets=1),)
    node.figures = (NodeRuleFigures(profile=name, rule="shards", matched=3),)
    await node.report()

    def is_there(raw: dict[str, Any]) -> bool:
        found = TuningProfile.model_validate(raw).status
        return (found.node_count, found.dataset_count) == (1, 1)

    found = TuningProfile.model_validate(await world.until(TUNING_PROFILES, name, is_there)).status
    assert (found.nodes[0].name, found.datasets) == (node.node, (f"{world.namespace}/digits",))
