"""Inventories of peers are requested at a bearable pace. A peer that does not answer has nothing."""

import asyncio

import pytest

from stoker_sidecar.fetcher.download.core.peer_scores import MOST_FAILURES
from stoker_sidecar.fetcher.peers.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.peers.peer_client import Having
from stoker_sidecar.fetcher.peers.peer_inventories import PeerInventories
from tests.support.divided_version import DividedVersion, PlayedPeers
from tests.support.waiting import eventually

A, B = "a:1", "b:1"
CONTENT = {"small": b"content"}
NOTHING = Having(b"", 0)


def made(
    version: DividedVersion, *, says: Having | None = None, choice: str = "", inodes: int = 100, peers: int = 1
) -> tuple[PeerInventories, PlayedPeers]:
    """Make the inventories of ``peers`` nodes. ``a:1`` answers ``says``."""
    names = (A, B, *(f"{number}:1" for number in range(peers)))[:peers]
    client = PlayedPeers(version.gives, {A: says})
    return version.others(Division(version.digest, names, 0, choice=choice), client, inodes), client


async def naps(version: DividedVersion, having: PeerInventories, count: int) -> list[float]:
    """Return the first pauses between two queries to one node, in seconds."""
    asking = asyncio.create_task(having.ask_on(A))
    await eventually(lambda: len(version.naps) >= count)
    asking.cancel()
    return [round(nap, 9) for nap in version.naps[:count]]


async def test_what_a_node_says_is_known_of_it(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"\1", 7))
    await having.ask_once(A)
    assert (having.by_peer, client.questions) == ({A: Having(b"\1", 7)}, [(A, 100, -1)])


async def test_it_is_asked_for_what_it_has_more_than_the_last_time(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"\1", 7, number=3))
    await having.ask_once(A)
    await having.ask_once(A)
    assert [after for _, _, after in client.questions] == [-1, 3]


async def test_who_does_not_answer_has_what_it_had_as_long_as_it_gets_on(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"\1", 7))
    await having.ask_once(A)
    client.says[A] = None
    await having.ask_once(A)
    assert having.by_peer == {A: Having(b"\1", 7)}
    version.now += PATIENCE + 1
    await having.ask_once(A)
    assert having.by_peer == {A: NOTHING}


async def test_who_may_not_be_asked_has_nothing_and_is_not_asked(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"\1", 7))
    await having.ask_once(A)
    for _ in range(MOST_FAILURES):
        having.givers.failed(A)
    await having.ask_once(A)
    assert (having.by_peer, len(client.questions)) == ({}, 1)


async def test_where_nobody_can_be_asked_nobody_has_anything(version: DividedVersion) -> None:
    having = version.others(Division(version.digest, (A,), 0), None)
    await having.ask_once(A)
    assert having.by_peer == {}


async def test_a_node_gets_on_by_what_arrives_there(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"", 1))
    await having.ask_once(A)
    version.now += PATIENCE
    client.says[A] = Having(b"", 2)
    await having.ask_once(A)
    version.now += PATIENCE
    await having.ask_once(A)
    assert having.division.progress.gets_on(A, version.now)
    version.now += 0.1
    assert not having.division.progress.gets_on(A, version.now)


async def test_a_node_that_answers_nothing_is_heard_no_more(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"", 1))
    await having.ask_once(A)
    client.says[A] = None
    version.now += PATIENCE + 1
    await having.ask_once(A)
    assert not having.division.progress.speaks(A, version.now)


async def test_what_arrives_at_one_that_warms_other_paths_is_not_waited_for(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"", 1, choice="other"), choice="mine")
    for arrived in (1, 2, 3):
        version.now += 0.9 * PATIENCE
        client.says[A] = Having(b"", arrived, choice="other")
        await having.ask_once(A)
    assert not having.division.progress.gets_on(A, version.now)
    assert having.division.progress.speaks(A, version.now)


async def test_who_has_more_is_news_and_who_has_the_same_is_none(version: DividedVersion) -> None:
    having, client = made(version, says=Having(b"\0", 7))
    told = []
    for said in (Having(b"\0", 7), Having(b"\0", 8, number=9), Having(b"\1", 8), None, None):
        version.now += 0.0 if said else PATIENCE + 1
        client.says[A] = said
        having.told.clear()
        await having.ask_once(A)
        told.append(having.told.is_set())
    assert told == [True, False, True, True, False]


async def test_news_end_the_wait_and_are_told_once(version: DividedVersion) -> None:
    having, _ = made(version, says=Having(b"\1", 7))
    awake = asyncio.Event()

    async def sleep(seconds: float) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            awake.set()

    having.limits.sleep = sleep
    waiting = asyncio.create_task(having.until_told(60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    await having.ask_once(A)
    await waiting
    assert not having.told.is_set()
    await eventually(awake.is_set)  # all sleepers wake up


async def test_without_news_the_wait_ends_by_itself(version: DividedVersion) -> None:
    having, _ = made(version)
    await having.until_told(0.4)
    assert version.naps == [0.4]


async def test_one_that_does_not_say_when_it_has_more_is_asked_ever_less_often(version: DividedVersion) -> None:
    having, _ = made(version, says=NOTHING)
    assert await naps(version, having, 7) == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("number", [0, 1])
async def test_one_that_answers_once_it_has_more_is_asked_again_at_once(version: DividedVersion, number: int) -> None:
    having, _ = made(version, says=Having(b"", 0, number=number))
    assert await naps(version, having, 3) == [0.05, 0.05, 0.05]


@pytest.mark.parametrize(("peers", "nap"), [(4, 0.2), (20, 0.5)])
async def test_it_is_asked_the_less_often_the_more_ask_it(version: DividedVersion, peers: int, nap: float) -> None:
    having, _ = made(version, says=Having(b"", 0, number=1), peers=peers)
    assert await naps(version, having, 3) == [nap] * 3


@pytest.mark.parametrize(("inodes", "peers", "nap"), [(500_000, 2, 0.1), (500_000, 8, 1.6), (4_000_000, 8, 3.0)])
async def test_about_a_large_version_it_is_asked_as_seldom_as_the_answers_cost(
    version: DividedVersion, inodes: int, peers: int, nap: float
) -> None:
    having, _ = made(version, says=Having(b"", 0, number=1), inodes=inodes, peers=peers)
    assert await naps(version, having, 2) == [nap] * 2
