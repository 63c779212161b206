"""GETs that ask for more than one piece: what a server on loopback sees of them, and whoever wants the pieces."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from stoker_sidecar.errors import DiskFull, EndpointUnreachable
from stoker_sidecar.store import open_bodies
from stoker_sidecar.store.s3_get import S3Getter
from tests.support.getters import anonymous_getter
from tests.support.range_server import CONTENT, PIECE, RangeServer, range_server
from tests.support.waiting import SECONDS, eventually


@pytest.fixture
async def server() -> AsyncIterator[RangeServer]:
    async with range_server() as served:
        yield served


@pytest.fixture
async def getter(server: RangeServer) -> AsyncIterator[S3Getter]:
    made = anonymous_getter(server.address)
    yield made
    await made.aclose()


async def _piece(getter: S3Getter, number: int, *, ahead: int = 0, etag: str = "e") -> bytes:
    """Take a piece, and ask for so many more."""
    into = bytearray()
    async with getter.get_range("k", number * PIECE, PIECE, if_match=etag, ahead=ahead * PIECE) as body:
        await body.stream(into.extend)
    return bytes(into)


def _content(number: int) -> bytes:
    return CONTENT[number * PIECE : (number + 1) * PIECE]


async def test_neighbouring_pieces_come_by_one_get(server: RangeServer, getter: S3Getter) -> None:
    came = [await _piece(getter, number, ahead=3 - number) for number in range(4)]
    assert came == [_content(number) for number in range(4)]
    assert server.asked == [(0, len(CONTENT))]


async def test_its_connection_is_used_again_when_the_last_piece_was_taken(
    server: RangeServer, getter: S3Getter
) -> None:
    for number in (0, 1, 3):
        assert await _piece(getter, number, ahead=int(number == 0)) == _content(number)
    assert server.asked == [(0, 2 * PIECE), (3 * PIECE, PIECE)]
    assert server.connections == 1


async def test_a_piece_that_is_not_the_next_one_is_asked_for(server: RangeServer, getter: S3Getter) -> None:
    await _piece(getter, 0, ahead=3)
    assert await _piece(getter, 2) == _content(2)
    assert server.asked == [(0, 4 * PIECE), (2 * PIECE, PIECE)]


async def test_bytes_of_another_object_than_is_wanted_are_not_given(server: RangeServer, getter: S3Getter) -> None:
    await _piece(getter, 0, ahead=3)
    await _piece(getter, 1, etag="")
    assert server.asked == [(0, 4 * PIECE), (PIECE, PIECE)]


async def test_a_body_that_breaks_off_fails_the_piece_it_is_in_and_the_next_attempt_asks_anew(
    server: RangeServer, getter: S3Getter
) -> None:
    server.most = PIECE + PIECE // 2
    assert await _piece(getter, 0, ahead=2) == _content(0)
    with pytest.raises(EndpointUnreachable, match="broke off") as caught:
        await _piece(getter, 1, ahead=1)
    assert caught.value.temporary
    server.most = len(CONTENT)
    assert await _piece(getter, 1, ahead=1) == _content(1)
    assert server.asked == [(0, 3 * PIECE), (PIECE, 2 * PIECE)]


async def test_a_body_that_was_not_taken_to_the_pieces_end_is_not_gone_on_with(
    server: RangeServer, getter: S3Getter
) -> None:
    def full(data: bytes | memoryview) -> None:
        raise DiskFull("no room for it")

    with pytest.raises(DiskFull):
        async with getter.get_range("k", 0, PIECE, if_match="e", ahead=PIECE) as body:
            await body.stream(full)
    assert await _piece(getter, 1) == _content(1)
    assert server.asked == [(0, 2 * PIECE), (PIECE, PIECE)]


async def test_a_cancelled_piece_ends_at_once_and_closes_its_connection(server: RangeServer, getter: S3Getter) -> None:
    server.most, server.breaks_off = PIECE + PIECE // 2, False
    await _piece(getter, 0, ahead=1)
    into = bytearray()

    async def take() -> None:
        async with getter.get_range("k", PIECE, PIECE, if_match="e") as body:
            await body.stream(into.extend)

    taking = asyncio.create_task(take())
    await eventually(lambda: len(into) > 0)
    taking.cancel()
    async with asyncio.timeout(SECONDS):  # less than the read timeout
        with pytest.raises(asyncio.CancelledError):
            await taking
    server.most = len(CONTENT)
    assert await _piece(getter, 1) == _content(1)
    assert server.connections == 2


async def test_a_body_that_nobody_goes_on_with_is_given_up(
    server: RangeServer, getter: S3Getter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_bodies, "_PATIENCE", 0.0)
    await _piece(getter, 0, ahead=3)
    await eventually(lambda: server.closed == 1)
    assert await _piece(getter, 1) == _content(1)


async def test_no_more_bodies_wait_than_may(
    server: RangeServer, getter: S3Getter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_bodies, "_MOST", 1)
    await _piece(getter, 0, ahead=2)
    await _piece(getter, 2, ahead=1)
    await eventually(lambda: server.closed == 1)
    assert await _piece(getter, 3) == _content(3)
    assert len(server.asked) == 2


async def test_a_getter_that_is_closed_leaves_no_body_open(server: RangeServer) -> None:
    getter = anonymous_getter(server.address)
    await _piece(getter, 0, ahead=3)
    await getter.aclose()
    await eventually(lambda: server.closed == 1)
