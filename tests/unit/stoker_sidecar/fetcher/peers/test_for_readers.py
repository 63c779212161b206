"""A reader's file comes from a peer that has it and answers at once, else from the source."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.peers.for_readers import MOST_PATIENCE, REST, GiversForReaders, SourceTimes
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having
from stoker_sidecar.store.core.object_checksum import EtagTrust
from stoker_sidecar.wire.fetcher_protocol import PEER_BYTES, PEER_WRONG
from tests.fakes.gated_store import GatedStore
from tests.support.cache_node import inode
from tests.support.divided_nodes import ALL, Alone, begin, count_of, nodes
from tests.support.divided_version import DividedVersion, PlayedPeers, open_divided
from tests.support.waiting import eventually

NEAR, FAR = "near:1", "far:1"
CONTENT = {"a": b"a" * 1000, "b": b"b" * 3_000_000, "c": b"c" * 1000, "large": b"l" * (CHUNK + 1)}
MANY = tuple(f"many/{number}" for number in range(0, 12, 2))  # the files between them may be read ahead
CONTENT |= {f"many/{number}": bytes([number]) * 1000 for number in range(12)}
Gives = Callable[[str, Ask], bytes | Came | Exception]


@asynccontextmanager
async def reading(
    folder: Path, gives: Gives | None = None, distances: tuple[int, ...] = (), **has: tuple[str, ...]
) -> AsyncIterator[tuple[DividedVersion, PlayedPeers]]:
    """Open a version with two peers that have the files in ``has``. They send the right bytes, or ``gives``."""
    async with open_divided(folder, CONTENT) as divided:
        played = PlayedPeers(gives or divided.gives)
        played.given.set()
        division = Division(divided.digest, (FAR, NEAR), 0, distances=distances)
        having = divided.others(division, played)
        for peer, paths in has.items():
            having.by_peer[f"{peer}:1"] = Having(divided.files(paths), 1)
        fetching, path_of = divided.fetching, divided.fetching.version.manifest.path_of
        givers = GiversForReaders(having, divided.downloads, path_of, divided.clock)
        givers.times.took(0.0)  # seconds of a request to the source, so that no test waits for long
        fetching.downloads.bring_for_reader = givers.bring
        yield divided, played


async def read(divided: DividedVersion, path: str) -> bytes:
    """Read all of a file, as a reader does."""
    entry = divided.entry(path)
    done = await divided.fetching.read(entry.ino, 0, entry.size)
    return await asyncio.to_thread(Path(done.file).read_bytes)


def from_source(divided: DividedVersion) -> list[str]:
    return [get.path for get in divided.node.store.gets]


@pytest.mark.parametrize("path", ["a", "b"])
async def test_a_file_comes_from_a_node_that_has_it(tmp_path: Path, path: str) -> None:
    async with reading(tmp_path, near=(path,)) as (divided, played):
        assert await read(divided, path) == CONTENT[path]
        assert from_source(divided) == []
        assert played.asked == [(NEAR, Ask(path, 0, len(CONTENT[path]), len(CONTENT[path]), reader=True))]
        assert count_of(divided.node, PEER_BYTES) == len(CONTENT[path])


async def test_the_nearest_is_asked(tmp_path: Path) -> None:
    async with reading(tmp_path, distances=(2, 1), near=("a",), far=("a",)) as (divided, played):
        await read(divided, "a")
        assert [peer for peer, _ in played.asked] == [NEAR]


async def test_what_no_other_has_comes_from_the_source(tmp_path: Path) -> None:
    async with reading(tmp_path, near=("b",)) as (divided, played):
        assert await read(divided, "a") == CONTENT["a"]
        assert played.asked == []


async def test_no_reader_waits_for_a_large_file_of_another_node(tmp_path: Path) -> None:
    async with reading(tmp_path, near=("large",)) as (divided, played):
        assert await read(divided, "large") == CONTENT["large"]
        assert played.asked == []


@pytest.mark.parametrize("came", [Came.BUSY, Came.ABSENT, Came.NOTHING, b"", b"too long" * 1000, RuntimeError("over")])
async def test_what_does_not_come_comes_from_the_source(tmp_path: Path, came: Any) -> None:
    async with reading(tmp_path, lambda peer, ask: came, near=("a",)) as (divided, _):
        assert await read(divided, "a") == CONTENT["a"]
        assert from_source(divided) == ["a"]


async def test_wrong_bytes_are_read_by_nobody(tmp_path: Path) -> None:
    async with reading(tmp_path, lambda peer, ask: b"x" * ask.length, near=("a", "c")) as (divided, _):
        divided.fetching.version.trust = EtagTrust(4, proven=True)
        assert await read(divided, "a") == CONTENT["a"]
        assert count_of(divided.node, PEER_WRONG) == 1


async def test_who_keeps_a_reader_waiting_is_asked_for_none_for_a_while(tmp_path: Path) -> None:
    async with reading(tmp_path, near=("a", "b", "c")) as (divided, played):
        played.given.clear()
        assert await read(divided, "c") == CONTENT["c"]
        played.given.set()
        await read(divided, "a")
        assert [ask.path for _, ask in played.asked] == ["c"]
        divided.now += REST
        await read(divided, "b")
        assert from_source(divided) == ["c", "a"]


async def test_a_node_is_asked_for_a_few_at_a_time_and_not_blamed_for_the_others(tmp_path: Path) -> None:
    async with reading(tmp_path, near=MANY) as (divided, played):
        played.given.clear()
        reads = [asyncio.create_task(read(divided, path)) for path in MANY]
        await eventually(lambda: set(MANY) <= set(from_source(divided)))
        assert len(played.asked) == 4
        assert [await one for one in reads] == [CONTENT[path] for path in MANY]


async def test_a_file_that_nothing_proves_comes_from_the_source(tmp_path: Path) -> None:
    async with reading(tmp_path, near=("a",)) as (divided, played):
        divided.fetching.version.trust = EtagTrust(1, doubtful=frozenset({"0" * 32}))
        assert await read(divided, "a") == CONTENT["a"]
        assert played.asked == []


async def test_while_nodes_divide_a_version_readers_have_what_others_have_from_them(tmp_path: Path) -> None:
    class ForReadersAlone(Alone):
        """Sends files to readers, but not to warm-ups."""

        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            self.asked.append((peer, ask))
            if not ask.reader:
                return Came.BUSY
            await asyncio.to_thread(write, CONTENT[ask.path])
            return Came.WHOLE

    store, neighbour = GatedStore(), ForReadersAlone(ALL)
    async with nodes(tmp_path, neighbour, CONTENT, count=1, store=store) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: bool(neighbour.asked))
        assert await asyncio.wait_for(node.read(digest, inode(node, digest, "a"), 0, 1000), 10.0) == CONTENT["a"]
        store.let_all_go()


@pytest.mark.parametrize(("seconds", "patience"), [(0.0, 0.1), (0.02, 0.18), (10.0, MOST_PATIENCE)])
def test_a_reader_waits_for_another_node_by_what_the_source_takes(seconds: float, patience: float) -> None:
    times = SourceTimes()
    assert times.patience == MOST_PATIENCE
    times.took(seconds)
    assert times.patience == pytest.approx(patience)
