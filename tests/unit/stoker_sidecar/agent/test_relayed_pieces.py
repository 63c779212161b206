"""A piece is given to other nodes while it comes, as far as it is here, and broken off where it does not go on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from stoker_sidecar.agent.core.wanted_span import WantedSpan
from stoker_sidecar.agent.relayed_pieces import RelayedPieces
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.wire.fetcher_protocol import Failed, Reach, Reached, Reply
from tests.support.waiting import eventually

UID, DIGEST, PART = "uid-1", "0" * 64, "7.0123abcd"
LENGTH = 3_000_000
CONTENT = bytes(range(250)) * (LENGTH // 250)
ABOUT = Reach(UID, DIGEST, PART, 0)
SPAN = WantedSpan("model", PART, 0, LENGTH, 10 * LENGTH)


@dataclass
class Coming:
    """What the fetcher answers, one after the other; then it is waited for. ``asked``: how much was known."""

    paths: VersionPaths
    replies: "asyncio.Queue[Reply | Exception]" = field(default_factory=asyncio.Queue)
    asked: list[int] = field(default_factory=list)

    async def __call__(self, about: Reach) -> Reply:
        """Answer the fetcher's next reply."""
        self.asked.append(about.past)
        reply = await self.replies.get()
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Reached):
            self.part.write_bytes(CONTENT[: reply.here])
        return reply

    @property
    def part(self) -> Path:
        """The file that it comes to."""
        return self.paths.parts / PART

    def reaches(self, *replies: int | Reply | Exception) -> None:
        """Have it answer these."""
        for one in replies:
            self.replies.put_nowait(Reached(one) if isinstance(one, int) else one)


@pytest.fixture
def coming(tmp_path: Path) -> Coming:
    paths = CachePaths(tmp_path).dataset(UID).version(DIGEST)
    paths.parts.mkdir(parents=True)
    found = Coming(paths)
    found.part.touch()
    return found


async def _at_once(_: int) -> None:
    """Wait for nothing."""


@asynccontextmanager
async def giving(coming: Coming, span: WantedSpan = SPAN) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    relayed = RelayedPieces(coming, 4)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await relayed.send(request, ABOUT, coming.paths, span, _at_once) or web.Response(status=404)

    application = web.Application()
    application.router.add_get("/", answer)
    async with TestClient(TestServer(application)) as client:
        yield client


async def test_what_is_here_is_sent_before_the_rest_has_come(coming: Coming) -> None:
    async with giving(coming) as client:
        coming.reaches(1000)
        async with client.get("/") as answer:
            assert await answer.content.readexactly(1000) == CONTENT[:1000]
            coming.reaches(LENGTH)
            assert await answer.read() == CONTENT[1000:]
            assert answer.content_length == LENGTH


async def test_of_a_whole_piece_no_more_is_sent_than_was_asked_for(coming: Coming) -> None:
    async with giving(coming, SPAN._replace(length=5)) as client:
        coming.reaches(LENGTH)
        async with client.get("/") as answer:
            assert await answer.read() == CONTENT[:5]


async def test_several_that_ask_for_the_same_have_it_asked_about_once(coming: Coming) -> None:
    async with giving(coming) as client:
        coming.reaches(1000)
        async with client.get("/") as first, client.get("/") as second:
            await eventually(lambda: coming.asked == [0, 1000])
            coming.reaches(LENGTH)
            assert await first.read() == await second.read() == CONTENT
    assert coming.asked == [0, 1000, LENGTH]


@pytest.mark.parametrize(
    "reply",
    [1000, -1, Failed(11, "not open"), FetcherUnavailable("it is being started"), Reached(LENGTH, restarts=1)],
    ids=["it stalls", "it fails or is deleted", "closed", "the fetcher is gone", "it begins anew"],
)
async def test_what_does_not_go_on_is_broken_off(coming: Coming, reply: int | Reply | Exception) -> None:
    async with giving(coming) as client:
        coming.reaches(1000)
        async with client.get("/") as answer:
            assert await answer.content.readexactly(1000) == CONTENT[:1000]
            coming.reaches(reply)
            with pytest.raises(aiohttp.ClientError):
                await answer.read()


async def test_what_comes_too_slowly_is_broken_off_in_time(coming: Coming, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_sidecar.agent.relayed_pieces._MOST", 0.2)
    async with giving(coming) as client:
        coming.reaches(1000)
        async with client.get("/") as answer:
            with pytest.raises(aiohttp.ClientError):
                await answer.read()


@pytest.mark.parametrize("reply", [0, -1, FetcherUnavailable("it is being started")])
async def test_of_what_does_not_come_nothing_is_sent(coming: Coming, reply: int | Exception) -> None:
    async with giving(coming) as client:
        coming.reaches(reply)
        async with client.get("/") as answer:
            assert answer.status == 404


async def test_a_file_that_was_deleted_is_not_given(coming: Coming) -> None:
    coming.part.unlink()
    async with giving(coming) as client, client.get("/") as answer:
        assert (answer.status, coming.asked) == (404, [])


async def test_a_file_that_someone_emptied_is_broken_off(coming: Coming) -> None:
    async with giving(coming, SPAN._replace(offset=LENGTH)) as client:
        coming.reaches(1000)
        async with client.get("/") as answer:
            assert answer.status == 404


async def test_after_a_break_it_is_asked_about_anew(coming: Coming) -> None:
    async with giving(coming) as client:
        for replies in ((1000, -1), (LENGTH,)):
            coming.reaches(*replies)
            async with client.get("/") as answer:
                try:
                    found = await answer.read()
                except aiohttp.ClientError:
                    found = b""
        assert found == CONTENT


async def test_who_goes_away_makes_room_for_another_and_is_no_error(
    coming: Coming, caplog: pytest.LogCaptureFixture
) -> None:
    relayed, transports = RelayedPieces(coming, 1), list[asyncio.Transport]()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        transports.append(request.transport)
        return await relayed.send(request, ABOUT, coming.paths, SPAN, _at_once) or web.Response(status=404)

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)  # as sidecars have it: a TestServer cancels who answers
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
        coming.reaches(1000)
        async with client.get("/"):
            assert not relayed.free
        await eventually(transports[0].is_closing)
        coming.reaches(LENGTH)
        await eventually(lambda: relayed.free)
    await runner.cleanup()
    assert caplog.records == []
