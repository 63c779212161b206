"""Pods with a user namespace, from the kubelet's pod folders."""

import asyncio
from pathlib import Path

import pytest

from stoker_sidecar.volumes.user_namespaces import WATCH_SECONDS, UserNamespaces
from tests.fakes.volumes import Clock, publish_request
from tests.support.waiting import SECONDS

REQUEST = publish_request()


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    """Return the path of the kubelet's file for the pod of REQUEST."""
    folder = tmp_path / REQUEST.pod_uid
    folder.mkdir()
    return folder / "userns"


def test_a_pod_is_known_from_the_mapping_that_the_kubelet_keeps(tmp_path: Path, mapping: Path) -> None:
    namespaces = UserNamespaces(tmp_path)
    assert (namespaces.look([REQUEST]), namespaces.has(REQUEST)) == (False, False)
    mapping.touch()
    assert (namespaces.look([REQUEST]), namespaces.has(REQUEST)) == (True, True)


def test_a_known_pod_is_news_once(tmp_path: Path, mapping: Path) -> None:
    mapping.touch()
    namespaces = UserNamespaces(tmp_path)
    assert [namespaces.look([REQUEST]) for _ in range(2)] == [True, False]


def test_a_pod_is_looked_at_until_its_volumes_are_old(tmp_path: Path, mapping: Path) -> None:
    clock = Clock()
    namespaces = UserNamespaces(tmp_path, clock)
    namespaces.look([REQUEST])
    clock.now += WATCH_SECONDS + 1
    mapping.touch()
    assert not namespaces.look([REQUEST])


def test_a_pod_that_is_gone_is_forgotten(tmp_path: Path, mapping: Path) -> None:
    mapping.touch()
    namespaces = UserNamespaces(tmp_path)
    namespaces.look([REQUEST])
    namespaces.look([])
    assert not namespaces.has(REQUEST)


def test_the_attribute_of_an_inline_volume_is_enough() -> None:
    assert UserNamespaces().has(publish_request(user_namespace=True))


@pytest.fixture
def mapped(mapping: Path) -> None:
    mapping.touch()


@pytest.mark.usefixtures("mapped")
async def test_news_marks_a_change(tmp_path: Path) -> None:
    news = asyncio.Event()
    watch = asyncio.create_task(UserNamespaces(tmp_path).run(lambda: [REQUEST], news.set))
    async with asyncio.timeout(SECONDS):
        await news.wait()
    watch.cancel()
