"""The operator's integration tests pass with any delays of the API server.

They run on the API server in memory and in virtual time. The seed of a test sets all delays. STOKER_RANDOM_DELAYS sets
the number of seeds.
"""

import asyncio
import inspect
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from stoker_api import names
from stoker_kube.client import KubeClient
from stoker_operator.core.origins.origin_policy import OriginPolicy
from stoker_operator.mirror.state import ClusterState
from stoker_operator.processes.leader import Leader
from tests.fakes.delayed_kube import DelayedKube
from tests.integration.stoker_operator import conftest as integration
from tests.integration.stoker_operator.conftest import CAPS, World
from tests.support.kinds import NAMESPACES
from tests.support.virtual_operator import EPOCH, feed, wait_fed

SEEDS = int(os.environ.get("STOKER_RANDOM_DELAYS", "3"))
HOME = "test"  # the namespace of the operator and of each test
# Tests of rules that only a real API server has. Tests that use the fixture ``apiserver`` are always left out.
LEFT_OUT = {
    "test_what_the_door_takes_the_schema_takes": "the schema of a CRD",
    "test_documents_that_come_with_stoker_go_through_the_schema_as_they_are": "the schema of a CRD",
    "test_a_template_that_the_api_server_refuses_is_told_in_its_words": "validation of a Job",
    "test_a_namespace_without_room_for_claims": "admission by a ResourceQuota",
    "test_a_namespace_that_is_deleted_with_two_datasets_of_different_secrets": "admission to a terminating namespace",
    "test_what_the_api_server_takes_ends_with_a_condition_and_holds_up_nobody": "the schema of a CRD",
    "test_a_node_cache_that_is_refused_is_written_without_the_dataset_that_spoils_it": "an admission policy",
}

pytestmark = pytest.mark.expected_logs(".")  # stale reads cause conflicts, which the operator logs


@pytest.fixture(params=range(SEEDS), ids=lambda seed: f"seed{seed}")
async def seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[random.Random]:
    """Derive UIDs, names and back-offs from the seed, and the time from the event loop."""
    generator, loop, state = random.Random(request.param), asyncio.get_running_loop(), random.getstate()
    monkeypatch.setattr(os, "urandom", generator.randbytes)
    monkeypatch.setattr(time, "monotonic", loop.time)
    monkeypatch.setattr(time, "time", lambda: EPOCH + loop.time())
    random.seed(request.param)
    yield generator
    random.setstate(state)


@pytest.fixture
async def world(seeded: random.Random) -> AsyncIterator[World]:
    """Start a leading operator, as the fixture of the integration tests does."""
    kube = DelayedKube(seeded, lambda: datetime.fromtimestamp(time.time(), UTC))
    made = World(cast(KubeClient, kube), HOME, label=HOME)
    for name in (HOME, names.node_accounts_namespace(HOME)):
        await kube.create(NAMESPACES, {"metadata": {"name": name}})
    state = ClusterState(HOME)
    leader = Leader(kube, state, made.clock, origins=OriginPolicy.model_validate(CAPS))
    made.tasks += feed(kube, state)
    made.tasks.append(asyncio.create_task(leader.run(wait_fed, asyncio.Event())))
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


Fixture = type(world)  # pytest does not export the type


def fixtures_of(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Fixture)}


def arguments(module: ModuleType, function: Any) -> Iterator[str]:
    """Yield the names of all arguments of a test and of its fixtures."""
    for name in inspect.signature(function).parameters:
        yield name
        if name in fixtures_of(module):
            yield from arguments(module, vars(module)[name])


def suitable_tests(module: ModuleType) -> dict[str, Any]:
    """Return the tests that need an operator, but no real API server."""
    tests = {name: value for name, value in vars(module).items() if name.startswith("test_") and name not in LEFT_OUT}
    needed = {name: set(arguments(module, test)) for name, test in tests.items()}
    return {name: test for name, test in tests.items() if "world" in needed[name] and "apiserver" not in needed[name]}


def collect() -> Iterator[tuple[str, Any]]:
    """Yield the suitable integration tests and their fixtures. The name of a test begins with its file."""
    stems = sorted(path.stem for path in Path(integration.__file__).parent.glob("test_*.py"))
    for module in [import_module(f"{integration.__package__}.{stem}") for stem in stems]:
        tests = suitable_tests(module)
        yield from fixtures_of(module).items() if tests else ()
        for name, test in tests.items():
            yield f"{module.__name__.rpartition('.')[2]}.{name}", test


for name, value in collect():
    assert name not in globals(), f"two files have the fixture {name}"
    globals()[name] = value


def test_each_test_that_is_left_out_exists() -> None:
    folder = Path(integration.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
    assert [name for name in LEFT_OUT if f"def {name}(" not in text] == []
