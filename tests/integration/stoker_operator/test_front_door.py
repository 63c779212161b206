"""kopf as the intake, on a real API server."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stoker_api import names
from stoker_kube.client import KubeClient
from stoker_kube.resources import DATASETS, TRAINING_JOBS, Kind
from stoker_operator.handlers.front_door import FrontDoor
from stoker_operator.main import RECURSION_LIMIT
from stoker_operator.mirror.state import ClusterState
from tests.fakes.sidecar import settled
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually

SPEC: dict[str, Any] = {"source": {"uri": "s3://bucket/"}}
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "x"}]}}


class Door:
    """A running intake, and the state behind it."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self.kube = kube
        self.namespace = namespace
        self.state = ClusterState(namespace)
        self.front_door = FrontDoor(kube, self.state)

    async def create(self, name: str, **meta: Any) -> dict[str, Any]:
        body = {"metadata": {"name": name, "namespace": self.namespace} | meta, "spec": SPEC}
        return await self.kube.create(DATASETS, body)

    async def until_seen(self, *names_: str) -> None:
        def seen() -> bool:
            present = self.state.snapshot().datasets
            return sorted(names_) == sorted(one.metadata.name for one in present.values() if self.mine(one.key))

        await eventually(seen)

    def mine(self, key: str) -> bool:
        return key.startswith(f"{self.namespace}/")


@pytest.fixture
async def door(apiserver: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    async with await apiserver.client() as kube:
        made = Door(kube, namespace)
        await made.create("early")
        running = asyncio.create_task(made.front_door.run())
        await made.front_door.wait_whole()
        yield made
        await settled(running)


async def test_what_was_there_is_known_when_it_is_whole_and_changes_follow(door: Door) -> None:
    assert f"{door.namespace}/early" in door.state.snapshot().datasets
    await door.create("late")
    await door.until_seen("early", "late")
    await door.kube.delete(DATASETS, "early", door.namespace)
    await door.until_seen("late")


def labelled(door: Door, kind: Kind, name: str) -> bool:
    view, key = door.state.snapshot(), f"{door.namespace}/{name}"
    found = view.datasets.get(key) if kind is DATASETS else view.training_jobs.get(key)
    return found is not None and found.metadata.labels == {"seen": "twice"}


@pytest.mark.parametrize("kind", [DATASETS, TRAINING_JOBS], ids=["dataset", "training-job"])
async def test_kopf_writes_nothing_onto_objects(door: Door, kind: Kind) -> None:
    spec = SPEC if kind is DATASETS else {"template": TEMPLATE}
    meta = {"name": "object", "namespace": door.namespace, "finalizers": [names.FINALIZER, "theirs.dev/x"]}
    await door.kube.create(kind, {"metadata": meta, "spec": spec})
    changed = await door.kube.patch(kind, "object", {"metadata": {"labels": {"seen": "twice"}}}, door.namespace)
    await eventually(lambda: labelled(door, kind, "object"))
    assert await door.kube.get(kind, "object", door.namespace) == changed


async def test_kopf_runs_beside_the_tasks_and_signals_of_the_process(door: Door) -> None:
    # The thread of an earlier test's operator may still be ending.
    await eventually(lambda: [one.name for one in threading.enumerate()].count("kopf") == 1)
    assert not [task for task in asyncio.all_tasks() if "kopf._" in repr(task.get_coro())]


async def test_an_object_of_great_depth_stops_no_other(door: Door) -> None:
    sys.setrecursionlimit(RECURSION_LIMIT)
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    for name, metadata in (("deep", {"x": deep}), ("plain", {})):
        body = {
            "metadata": {"name": name, "namespace": door.namespace},
            "spec": {"template": TEMPLATE | {"metadata": metadata}},
        }
        await door.kube.create(TRAINING_JOBS, body)
    await eventually(lambda: f"{door.namespace}/plain" in door.state.snapshot().training_jobs)
