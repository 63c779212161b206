"""The inventory of a peer is trusted until there is evidence against it."""

import asyncio
from collections.abc import Callable

from stoker_sidecar.fetcher.download.core.peer_scores import PeerScores
from stoker_sidecar.fetcher.download.warming import WarmLimits
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having
from stoker_sidecar.fetcher.peers.peer_inventories import PeerInventories
from stoker_sidecar.fetcher.sources.core.concurrency import AdaptiveLimit
from stoker_sidecar.fetcher.sources.core.lanes import WarmSlots
from tests.support.played_files import GivesTogether

PEER = "a:1"
SOME = Having(b"\0\1\1", 10, number=1)
LESS = Having(b"\0\1\0", 10, number=2)


class Saying(GivesTogether):
    """A node with a sequence of answers."""

    def __init__(self, *answers: Having | None) -> None:
        super().__init__()
        self._answers = list(answers)

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        return self._answers.pop(0)

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        return Came.NOTHING


async def sleep(seconds: float) -> None:
    """Return at once."""


async def asked(*answers: Having | None, every: float = 1.0) -> PeerInventories:
    """Request all of these answers, one every ``every`` seconds."""
    now = 0.0
    limits = WarmLimits("uid", WarmSlots(lambda: now, AdaptiveLimit(1)), None, asyncio.Event(), lambda: now, sleep)
    having = PeerInventories(Division("digest", (PEER,), 0), limits, PeerScores(lambda: now), Saying(*answers), 3)
    for _ in answers:
        await having.ask_once(PEER)
        now += every
    return having


async def test_one_answer_that_fails_to_come_takes_nothing_away() -> None:
    having = await asked(SOME, None)
    assert having.by_peer[PEER] == SOME


async def test_who_falls_silent_has_nothing_after_some_seconds() -> None:
    having = await asked(SOME, None, None, every=3.0)
    assert having.by_peer[PEER] == Having(b"", 0)


async def test_who_has_less_than_it_said_before_is_doubted_a_little() -> None:
    having = await asked(*[SOME, LESS] * 3)
    assert (having.by_peer[PEER], having.givers.doubt(PEER)) == (LESS, 1)


async def test_who_is_yet_to_say_anything_is_not_doubted_for_it() -> None:
    having = await asked(*[None] * 20)
    assert having.givers.doubt(PEER) == 0


async def test_who_has_not_what_it_said_it_has_is_not_believed_until_it_says_anew() -> None:
    having = await asked(SOME)
    believed = []
    for _ in range(3):
        having.was_absent(PEER)
        believed.append(having.by_peer[PEER] == SOME)
    assert believed == [True, True, False]
