"""The agent's side of the keeper's socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stoker_sidecar.errors import KeeperUnavailable
from stoker_sidecar.wire.keeper_client import KeeperClient

PATHS = (Path("/v/manifest.sqlite"), Path("/v"), Path("/mnt/u/d"))


@asynccontextmanager
async def keeper(socket: Path, answer: Callable[[dict[str, str]], bytes]) -> AsyncIterator[list[dict[str, str]]]:
    """Run a keeper that answers every line with the result of ``answer``. Yield the requests."""
    asked: list[dict[str, str]] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(json.loads(await reader.readline()))
        writer.write(answer(asked[-1]))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_unix_server(connected, str(socket)):
        yield asked


def ok(_request: dict[str, str]) -> bytes:
    return b'{"id": 1, "ok": true}\n'


async def test_serve_names_version_and_paths(tmp_path: Path) -> None:
    async with keeper(tmp_path / "k", ok) as asked:
        await KeeperClient(tmp_path / "k").serve("u", "d", *PATHS)
    paths = {"manifest": "/v/manifest.sqlite", "version_dir": "/v", "mountpoint": "/mnt/u/d"}
    assert asked == [{"id": 1, "op": "serve", "uid": "u", "digest": "d", **paths}]


async def test_release_names_the_version(tmp_path: Path) -> None:
    async with keeper(tmp_path / "k", ok) as asked:
        await KeeperClient(tmp_path / "k").release("u", "d")
    assert asked == [{"id": 1, "op": "release", "uid": "u", "digest": "d"}]


async def test_a_refusal_keeps_the_keepers_sentence(tmp_path: Path) -> None:
    async with keeper(tmp_path / "k", lambda _: b'{"id": 1, "ok": false, "message": "no /dev/fuse here"}\n'):
        with pytest.raises(KeeperUnavailable, match="no /dev/fuse here"):
            await KeeperClient(tmp_path / "k").serve("u", "d", *PATHS)


@pytest.mark.parametrize("reply", [b"", b"nonsense\n", b"[1]\n"])
async def test_a_reply_that_is_none_is_an_error(tmp_path: Path, reply: bytes) -> None:
    async with keeper(tmp_path / "k", lambda _: reply):
        with pytest.raises(KeeperUnavailable, match="cannot be asked"):
            await KeeperClient(tmp_path / "k").release("u", "d")


async def test_a_keeper_that_is_not_there_is_an_error_that_names_its_socket(tmp_path: Path) -> None:
    with pytest.raises(KeeperUnavailable, match=str(tmp_path / "k")):
        await KeeperClient(tmp_path / "k").release("u", "d")


async def test_a_keeper_that_never_answers_is_given_up(tmp_path: Path) -> None:
    gave_up = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gave_up.wait()
        writer.close()

    async with await asyncio.start_unix_server(silent, str(tmp_path / "k")):
        with pytest.raises(KeeperUnavailable, match="did not answer 'release'"):
            await KeeperClient(tmp_path / "k", reply_seconds=0.05).release("u", "d")
        gave_up.set()
