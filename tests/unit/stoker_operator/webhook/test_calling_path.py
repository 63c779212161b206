"""The API server proves itself by the path in the webhook's configuration, which only it reads."""

import asyncio
from typing import Any

import pytest

from stoker_kube.api import JSON
from stoker_kube.errors import Conflict, Unavailable
from stoker_kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from stoker_operator.webhook.calling_path import KEPT_SECONDS, MOST_WAITING, WEBHOOK_KINDS, CallingPath
from tests.fakes.kube import FakeKube


class World:
    """A configuration as in the chart, and replicas with a manual clock."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.now = 1000.0

    def replica(self) -> CallingPath:
        return CallingPath(self.kube, "stoker", lambda: self.now, self._sleep)

    async def install(self, **client: Any) -> None:
        client = client or {"service": {"name": "stoker-webhook", "namespace": "stoker", "port": 443}}
        webhooks = [{"name": "pods.stoker.dev", "clientConfig": client}]
        await self.kube.create(MUTATING_WEBHOOKS, {"metadata": {"name": "stoker"}, "webhooks": webhooks})

    async def set(self, path: str) -> None:
        operations = [{"op": "add", "path": "/webhooks/0/clientConfig/service/path", "value": path}]
        await self.kube.patch(MUTATING_WEBHOOKS, "stoker", operations, content_type=JSON)

    async def client(self) -> dict[str, Any]:
        return dict((await self.kube.get(MUTATING_WEBHOOKS, "stoker"))["webhooks"][0]["clientConfig"])

    async def path(self) -> str:
        return str((await self.client())["service"]["path"])

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)  # let other tasks run
        self.now += seconds


@pytest.fixture
async def world() -> World:
    made = World()
    await made.install()
    return made


async def test_the_configuration_gets_a_path_that_nobody_can_guess(world: World) -> None:
    await world.replica().ensure()
    path = await world.path()
    assert len(path) == len("/mutate/") + 64
    replica = world.replica()
    assert await replica.is_called_by(path)
    for other in ("/", "/mutate", path[:-1], f"{path}0", path.upper(), ""):
        assert not await replica.is_called_by(other)


async def test_each_configuration_gets_a_path_of_its_own(world: World) -> None:
    webhooks = [{"name": "tuningprofiles.stoker.dev", "clientConfig": {"service": {"name": "stoker-webhook"}}}]
    await world.kube.create(VALIDATING_WEBHOOKS, {"metadata": {"name": "stoker"}, "webhooks": webhooks})
    replica = world.replica()
    await replica.ensure()
    other = (await world.kube.get(VALIDATING_WEBHOOKS, "stoker"))["webhooks"][0]["clientConfig"]["service"]["path"]
    assert other != await world.path()
    assert await replica.is_called_by(other)
    assert await replica.is_called_by(await world.path())


async def test_a_path_that_is_secret_stays(world: World) -> None:
    await world.replica().ensure()
    path = await world.path()
    await world.replica().ensure()
    assert await world.path() == path


async def test_a_replica_learns_of_another_ones_path_when_it_is_called_by_it(world: World) -> None:
    first, second = world.replica(), world.replica()
    await second.ensure()
    await world.set("/mutate")
    await first.ensure()
    assert await second.is_called_by(await world.path())


async def test_the_path_before_is_believed_for_a_moment(world: World) -> None:
    await world.set("/mutate")
    replica = world.replica()
    await replica.ensure()
    assert await replica.is_called_by("/mutate")
    world.now += KEPT_SECONDS
    assert not await replica.is_called_by("/mutate")


async def test_strangers_make_it_look_once_a_second_at_most(world: World) -> None:
    replica = world.replica()
    await replica.ensure()
    world.kube.requests.clear()
    began = world.now
    for _ in range(20):
        await replica.is_called_by("/guess")
    for kind in WEBHOOK_KINDS:
        assert world.kube.requests.count(("get", kind.plural)) <= world.now - began + 1
    world.kube.requests.clear()
    await asyncio.gather(*(replica.is_called_by("/guess") for _ in range(MOST_WAITING + 50)))
    assert len(world.kube.requests) <= 3


@pytest.mark.expected_logs("could not be read")
async def test_without_the_api_server_what_was_known_is_believed(world: World) -> None:
    replica = world.replica()
    await replica.ensure()
    path = await world.path()
    world.kube.outage = Unavailable(503, "Down", "down")
    assert await replica.is_called_by(path)
    assert not await replica.is_called_by("/guess")


async def test_a_replica_that_is_too_late_takes_the_other_ones_path(world: World) -> None:
    world.kube.fail_next("patch", MUTATING_WEBHOOKS, Conflict(409, "Conflict", "changed"))
    replica = world.replica()
    await replica.ensure()
    await world.replica().ensure()
    assert await replica.is_called_by(await world.path())


async def test_without_a_configuration_nobody_calls() -> None:
    replica = World().replica()
    await replica.ensure()
    assert not await replica.is_called_by("/")


async def test_an_address_in_place_of_a_service_keeps_its_host() -> None:
    world = World()
    await world.install(url="https://127.0.0.1:9443/mutate?a=b")
    await world.replica().ensure()
    url = (await world.client())["url"]
    assert url.startswith("https://127.0.0.1:9443/mutate/")
    assert url.endswith("?a=b")
