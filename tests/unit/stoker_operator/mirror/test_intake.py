"""What kopf tells, put in order and compared with the API server's list."""

import asyncio
from typing import Any

import pytest

from stoker_kube.api import Object
from stoker_kube.errors import Unavailable
from stoker_kube.resources import DATASETS
from stoker_operator.mirror import intake as intakes
from stoker_operator.mirror.intake import DELETED, Intake
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually


def item(version: int, uid: str = "u1", name: str = "a") -> Object:
    return {"metadata": {"namespace": "n", "name": name, "uid": uid, "resourceVersion": str(version)}}


class Front:
    """An intake, and what it stored last."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.intake = Intake(DATASETS, self.stored.__setitem__)

    def version(self) -> str | None:
        found = self.stored.get("n/a")
        return found["metadata"]["resourceVersion"] if found else None


def test_the_newest_state_wins_whatever_the_order() -> None:
    front = Front()
    for version in (1, 3, 2):
        front.intake.take("MODIFIED", item(version))
    assert front.version() == "3"


def test_the_end_of_an_earlier_object_of_the_name_does_not_take_away_the_later_one() -> None:
    front = Front()
    front.intake.take(None, item(1, "old"))
    front.intake.take("ADDED", item(5, "new"))
    front.intake.take(DELETED, item(4, "old"))
    assert front.version() == "5"


def test_what_was_deleted_does_not_come_back() -> None:
    front = Front()
    front.intake.take(None, item(1))
    front.intake.take(DELETED, item(3))
    front.intake.take("MODIFIED", item(2))
    assert front.version() is None


async def create(kube: FakeKube, name: str = "a") -> Object:
    body = {"metadata": {"name": name, "namespace": "n"}, "spec": {"source": {"uri": "s3://bucket/"}}}
    return await kube.create(DATASETS, body)


async def test_it_is_whole_when_all_that_is_listed_was_told_of() -> None:
    kube, front = FakeKube(), Front()
    created = await create(kube)
    await front.intake.agree(kube)
    assert not front.intake.whole
    front.intake.take(None, created)
    await front.intake.agree(kube)
    assert front.intake.whole


async def test_a_deletion_that_nobody_told_of_is_found() -> None:
    kube, front = FakeKube(), Front()
    front.intake.take(None, await create(kube))
    await kube.delete(DATASETS, "a", "n")
    await front.intake.agree(kube)
    assert front.version() is None


async def test_what_is_newer_than_the_list_stays() -> None:
    kube, front = FakeKube(), Front()
    front.intake.take("ADDED", item(99))
    await front.intake.agree(kube)
    assert front.version() == "99"


async def test_an_object_made_anew_under_its_name_is_not_taken_for_the_first_one() -> None:
    kube, front = FakeKube(), Front()
    front.intake.take(None, await create(kube))
    await kube.delete(DATASETS, "a", "n")
    await create(kube)
    assert await front.intake.agree(kube)
    assert front.version() is None


@pytest.mark.expected_logs("starting it again")
async def test_kopf_is_started_again_when_it_has_gone_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "PATIENCE", 0.01)
    monkeypatch.setattr(intakes, "FIRST_AGREEMENT", 0.001)
    kube, front, restarts = FakeKube(), Front(), []
    await create(kube)
    keeping = asyncio.create_task(front.intake.keep(kube, lambda: restarts.append(True)))
    await eventually(lambda: bool(restarts))
    keeping.cancel()


@pytest.mark.expected_logs("kopf does not tell of")
async def test_what_is_not_told_even_then_is_taken_from_the_list_and_does_not_look_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intakes, "PATIENCE", 0.01)
    monkeypatch.setattr(intakes, "FIRST_AGREEMENT", 0.001)
    kube, front, restarts = FakeKube(), Front(), []
    await create(kube)
    keeping = asyncio.create_task(front.intake.keep(kube, lambda: restarts.append(True)))
    async with asyncio.timeout(10.0):
        await front.intake.wait_whole()
    keeping.cancel()
    assert restarts == [True]
    assert front.version() is not None


@pytest.mark.expected_logs("could not be listed")
async def test_a_list_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "FIRST_AGREEMENT", 0.001)
    kube, front = FakeKube(), Front()
    kube.fail_next("list", DATASETS, Unavailable(503, "Down", "down"))
    keeping = asyncio.create_task(front.intake.keep(kube, lambda: None))
    await front.intake.wait_whole()
    keeping.cancel()
