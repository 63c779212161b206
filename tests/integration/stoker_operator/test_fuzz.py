"""Every object that the API server accepts ends with a condition, and does not delay other objects.

``STOKER_FUZZ=2000`` makes that number of Datasets, and half as many TrainingJobs and pods. ``STOKER_FUZZ_SEED`` repeats
them.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset_status import Phase
from stoker_kube.errors import KubeError
from stoker_kube.resources import DATASETS, PODS, SERVICE_ACCOUNTS, TRAINING_JOBS, Kind
from tests.integration.stoker_operator.conftest import World
from tests.support.apiserver import ApiServer, LocalControlPlane
from tests.support.fuzz import Fuzzer
from tests.support.kinds import NAMESPACES
from tests.support.waiting import eventually_async

COUNT = int(os.environ.get("STOKER_FUZZ", "60"))
SEED = int(os.environ.get("STOKER_FUZZ_SEED", "11"))
SECONDS = 30.0 + COUNT / 5
CANARY_SECONDS = 20.0
DATASETS_A_NODE = 500
_AT_ONCE = 16
_LISTED_EVERY = 1.0


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give the odd objects a separate API server, which ends with them."""
    with LocalControlPlane(tmp_path_factory.mktemp("fuzz")) as server:
        yield server


async def _create(world: World, kind: Kind, objects: Iterable[dict[str, Any]]) -> int:
    """Create the objects that the API server accepts. Return their number."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(body: dict[str, Any]) -> bool:
        async with slots:
            try:
                await world.kube.create(kind, body, world.namespace)
            except (KubeError, UnicodeError):
                return False
            return True

    return sum(await asyncio.gather(*map(one, objects)))


async def _until_all(world: World, kind: Kind, settled: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Return all objects when each is settled. Raises AssertionError with some that are not."""
    waiting: list[dict[str, Any]] = []

    async def look() -> list[dict[str, Any]]:
        await asyncio.sleep(_LISTED_EVERY)
        items = [item async for page in world.kube.pages(kind, world.namespace) for item in page.items]
        waiting[:] = [item for item in items if not settled(item)]
        return [] if waiting else items

    try:
        return await eventually_async(look, SECONDS)
    except TimeoutError:
        raise AssertionError(f"{len(waiting)} {kind.plural} are not settled: {waiting[:2]}") from None


def _conditions(item: dict[str, Any]) -> list[dict[str, Any]]:
    return list(item.get("status", {}).get("conditions") or ())


def _is_told(pod: dict[str, Any]) -> bool:
    gates = pod["spec"].get("schedulingGates") or ()
    return not gates or bool(pod["metadata"].get("annotations", {}).get(names.ANNOTATION_WAITING)) or _is_sidecar(pod)


def _is_sidecar(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["name"].startswith("sidecar-"))


async def _neighbour_of(world: World) -> World:
    """Make a namespace whose Datasets share the nodes."""
    namespace = f"{world.namespace}-canary"
    await world.kube.create(NAMESPACES, {"metadata": {"name": namespace}})
    return World(world.kube, namespace, world.label, world.sidecars)


@pytest.mark.expected_logs(".*")
async def test_what_the_api_server_takes_ends_with_a_condition_and_holds_up_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1 + COUNT // DATASETS_A_NODE):
        (await world.add_node()).share = 1.0
    for account in ("team",):
        await world.kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": account, "namespace": world.namespace}})
    neighbour = await _neighbour_of(world)
    fuzz = Fuzzer(SEED, world.namespace)
    known = [f"set-{number}" for number in range(COUNT)]
    selector = {"test": world.label}
    taken = await _create(world, DATASETS, (fuzz.dataset(name, selector) for name in known))
    jobs = await _create(world, TRAINING_JOBS, (fuzz.training_job(f"job-{n}", known) for n in range(COUNT // 2)))
    pods = await _create(world, PODS, (fuzz.pod(f"pod-{n}", known) for n in range(COUNT // 2)))
    assert min(taken / COUNT, jobs * 2 / COUNT, pods * 2 / COUNT) > 0.4, (
        "most are refused at the door: fuzz nearer to it"
    )

    begin = time.monotonic()
    await neighbour.add_dataset("canary")
    await neighbour.until_dataset(lambda dataset: dataset.status.phase is Phase.READY, "canary")
    assert time.monotonic() - begin < CANARY_SECONDS

    found = await _until_all(world, DATASETS, lambda item: bool(_conditions(item)))
    found += await _until_all(world, TRAINING_JOBS, lambda item: bool(_conditions(item)))
    await _until_all(world, PODS, _is_told)
    said = [one["message"] for item in found for one in _conditions(item)]
    said += [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [text for text in said if "unexpected error" in text or "report it" in text] == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
