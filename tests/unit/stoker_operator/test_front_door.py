"""Datasets and TrainingJobs reach the mirror by kopf's events. Lists correct them."""

import asyncio
from typing import Any

import pytest

from stoker_kube.api import Object
from stoker_kube.errors import Unavailable
from stoker_kube.resources import DATASETS, Kind
from stoker_operator.handlers import front_door as front_doors
from stoker_operator.handlers.front_door import FrontDoor
from stoker_operator.mirror.state import ClusterState
from tests.fakes.kube import FakeKube
from tests.fakes.sidecar import settled
from tests.support.waiting import eventually


def item(version: int, uid: str = "u1") -> Object:
    metadata = {"namespace": "n", "name": "a", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"source": {"uri": "s3://bucket/"}}}


class Front:
    """An event intake, and its mirror."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.state = ClusterState("stoker-system")
        self.door = FrontDoor(self.kube, self.state)
        self.restarts = 0

    def take(self, event: str | None, item: Object) -> None:
        self.door.take(DATASETS, event, item)

    def version(self) -> str | None:
        found: Any = self.state.datasets.get("n/a")
        return found.metadata.resource_version if found else None

    async def create(self) -> Object:
        return await self.kube.create(DATASETS, item(0) | {"metadata": {"namespace": "n", "name": "a"}})

    async def delete(self) -> None:
        await self.kube.delete(DATASETS, "a", "n")

    async def resync(self) -> None:
        await self.door.resync(DATASETS)

    def restart(self) -> None:
        self.restarts += 1


def test_the_newest_state_wins_whatever_the_order() -> None:
    front = Front()
    for version in (1, 3, 2):
        front.take("MODIFIED", item(version))
    assert front.version() == "3"


def test_the_end_of_an_earlier_object_of_the_name_does_not_take_away_the_later_one() -> None:
    front = Front()
    front.take(None, item(1, "old"))
    front.take("ADDED", item(5, "new"))
    front.take("DELETED", item(4, "old"))
    assert front.version() == "5"


@pytest.mark.parametrize("late", [("MODIFIED", item(2)), (None, item(2))], ids=["event", "first list"])
def test_what_was_deleted_does_not_come_back(late: tuple[str | None, Object]) -> None:
    front = Front()
    front.take(None, item(1))
    front.take("DELETED", item(3))
    front.take(*late)
    assert front.version() is None


def test_a_state_of_an_earlier_object_of_the_name_does_not_replace_the_later_one() -> None:
    front = Front()
    front.take("ADDED", item(5, "new"))
    front.take("MODIFIED", item(4, "old"))
    assert front.version() == "5"


@pytest.mark.expected_logs("cannot be read")
def test_an_unreadable_state_leaves_the_last_one() -> None:
    front = Front()
    front.take(None, item(1))
    front.take("MODIFIED", item(2) | {"metadata": item(2)["metadata"] | {"labels": 7}})
    assert front.version() == "1"


async def test_a_state_that_nobody_told_of_is_found() -> None:
    front = Front()
    created = await front.create()
    await front.resync()
    assert front.version() == created["metadata"]["resourceVersion"]


async def test_a_deletion_that_nobody_told_of_is_found() -> None:
    front = Front()
    front.take(None, await front.create())
    await front.delete()
    await front.resync()
    assert front.version() is None


async def test_what_is_newer_than_the_list_stays() -> None:
    front = Front()
    front.take("ADDED", item(99))
    await front.resync()
    assert front.version() == "99"


async def test_an_object_made_anew_under_its_name_replaces_the_first_one() -> None:
    front = Front()
    front.take(None, await front.create())
    await front.delete()
    again = await front.create()
    await front.resync()
    assert front.version() == again["metadata"]["resourceVersion"]


@pytest.mark.expected_logs("could not be listed")
async def test_it_is_whole_after_the_first_lists_even_if_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_doors, "RETRY", 0.001)
    front = Front()
    front.kube.fail_next("list", DATASETS, Unavailable(503, "Down", "down"))
    keeping = asyncio.create_task(front.door.keep(front.restart))
    await front.door.wait_whole()
    await settled(keeping)
    assert front.door.whole


def counted_lists(front: Front, monkeypatch: pytest.MonkeyPatch) -> list[Kind]:
    """Return a list that records the kind of each list request."""
    lists: list[Kind] = []
    resync = front.door.resync

    async def counted(kind: Kind) -> None:
        lists.append(kind)
        await resync(kind)

    monkeypatch.setattr(front.door, "resync", counted)
    return lists


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_doors, "PATIENCE", 0.001)
    monkeypatch.setattr(front_doors, "RESYNC", 0.002)


@pytest.mark.expected_logs("restarting it")
async def test_kopf_is_restarted_once_when_it_has_gone_deaf(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    front = Front()
    lists = counted_lists(front, monkeypatch)
    await front.create()
    keeping = asyncio.create_task(front.door.keep(front.restart))
    await eventually(lambda: len(lists) > 6)
    await settled(keeping)
    assert front.restarts == 1


async def test_kopf_is_not_restarted_when_it_reports_what_was_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_doors, "PATIENCE", 0.05)
    monkeypatch.setattr(front_doors, "RESYNC", 0.06)
    front = Front()
    lists = counted_lists(front, monkeypatch)
    created = await front.create()
    keeping = asyncio.create_task(front.door.keep(front.restart))
    await front.door.wait_whole()
    front.take("ADDED", created)
    await eventually(lambda: len(lists) > 2)
    await settled(keeping)
    assert front.restarts == 0
