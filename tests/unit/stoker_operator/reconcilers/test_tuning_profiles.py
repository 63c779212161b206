"""The pass over TuningProfiles against the in-memory API server.

`STOKER_RANDOM_PROFILES=1000` sets the number of random profiles. The default is 100.
"""

import os
from typing import Any

import pytest

from stoker_api.names import ConditionType
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import NodeProfile, NodeRuleFigures
from stoker_api.profiles.tuningprofile import TuningProfile
from stoker_kube.resources import TUNING_PROFILES
from stoker_operator.core.classes.profiles import ProfileReader
from stoker_operator.core.status.profile_status import FIGURES_EVERY, WHERE_EVERY
from stoker_operator.reconcilers.tuning_profiles import TuningProfileReconciler
from tests.unit.stoker_operator.builders import condition
from tests.unit.stoker_operator.operator_world import OperatorWorld
from tests.unit.stoker_operator.profiles import BAD, GOOD
from tests.unit.stoker_tuning.documents.test_random_documents import Writer as RandomDocuments

COUNT = int(os.environ.get("STOKER_RANDOM_PROFILES", "100"))


class World(OperatorWorld):
    """An API server, its mirror, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = ProfileReader()
        self.reconciler = TuningProfileReconciler(self.writer, self.state, self.events, self.clock)

    async def apply(self, spec: Any, name: str = "fast") -> None:
        raw = await self.kube.apply(TUNING_PROFILES, {"metadata": {"name": name}, "spec": spec}, field_manager="user")
        self.state.tuning_profiles.put(name, self._reader.view(raw))

    async def run(self) -> float | None:
        due = await self.reconciler.reconcile()
        await self.reconciler.work.settled()
        return due

    async def profile(self, name: str = "fast") -> TuningProfile:
        return TuningProfile.model_validate(await self.kube.get(TUNING_PROFILES, name))

    def report(self, matched: int, generation: int = 1) -> None:
        status = {
            "tuningProfiles": [NodeProfile(profile="fast", generation=generation, datasets=1).wire()],
            "tuning": [NodeRuleFigures(profile="fast", rule="shards", matched=matched).wire()],
        }
        metadata = {"name": "a", "uid": "a", "resourceVersion": str(matched + generation)}
        given = {"namespace": "n", "name": "d", "uid": "d", "source": {"uri": "s3://b/"}, "tuning": {"profile": "fast"}}
        spec = {"datasets": [given]}
        self.state.node_caches.put(
            "a", NodeCache.model_validate({"metadata": metadata, "spec": spec, "status": status})
        )


@pytest.fixture
async def world() -> World:
    """Make an operator that has seen a valid TuningProfile."""
    made = World()
    await made.apply(GOOD)
    await made.run()
    return made


async def test_the_status_says_that_it_is_accepted(world: World) -> None:
    status = (await world.profile()).status
    accepted = condition(status, ConditionType.ACCEPTED)
    assert (accepted.status, status.observed_generation, status.rule_count) == ("True", 1, 1)
    assert world.events.by_name == [("fast", "Normal", "Accepted")]


async def test_the_last_good_generation_is_remembered(world: World) -> None:
    await world.apply(BAD)
    await world.run()
    status = (await world.profile()).status
    assert (status.observed_generation, status.accepted_generation) == (2, 1)
    assert [one[:2] for one in world.events.by_name] == [("fast", "Normal"), ("fast", "Warning")]


async def test_a_pass_that_finds_nothing_new_writes_nothing(world: World) -> None:
    world.kube.requests.clear()
    await world.run()
    assert world.kube.requests == []


async def test_figures_alone_are_written_once_a_minute() -> None:
    world = World()
    await world.apply(GOOD)
    world.report(1)
    await world.run()
    world.kube.requests.clear()
    world.report(2)
    due = await world.run()
    assert (world.kube.requests, due) == ([], FIGURES_EVERY)
    world.now += FIGURES_EVERY
    await world.run()
    assert (await world.profile()).status.rules[0].matched == 2


async def test_figures_that_were_too_early_are_written_as_soon_as_they_may_be(world: World) -> None:
    world.now += FIGURES_EVERY / 2
    world.report(1)
    await world.run()  # writes the current figures
    world.now += FIGURES_EVERY / 2
    assert await world.run() == FIGURES_EVERY / 2
    world.now += FIGURES_EVERY / 2
    await world.run()
    assert (await world.profile()).status.rules[0].matched == 1


async def test_where_it_runs_is_written_every_few_seconds(world: World) -> None:
    world.report(1)
    assert await world.run() == WHERE_EVERY
    world.now += WHERE_EVERY
    await world.run()
    assert (await world.profile()).status.node_count == 1


async def test_without_profiles_nothing_is_looked_at() -> None:
    assert await World().run() is None


async def test_random_documents_are_all_told_of() -> None:
    world = World()
    for seed in range(COUNT):
        await world.apply(RandomDocuments(seed).document()["spec"], f"p{seed}")
    while None in [view.status.observed_generation or None for view in world.state.tuning_profiles.snapshot().values()]:
        await world.run()
    said = [len((await world.profile(f"p{seed}")).status.conditions) for seed in range(COUNT)]
    assert said == [1] * COUNT
