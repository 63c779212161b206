"""Large files that are read through a disk with little room."""

import asyncio
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.errors import DiskFull
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.sources.piece_sources import InProcess
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.wire.fetcher_protocol import Read
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece
from tests.support.cache_node import LARGE, UID, CacheNodeUnderTest, content, fill, inode, open_cache_node


def bytes_on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


LAG = 0.05  # seconds between an answer and the opening of its file


class RoomOfAChunk(InProcess):
    """Writes a piece only if its whole file takes at most a chunk on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = 0

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceFetcher."""
        if self.writing or bytes_on_disk(Path(piece.into)) + piece.length > CHUNK:
            raise DiskFull("no space left")
        self.writing += 1
        try:
            return await super().fetch(handle, piece, arrived)
        finally:
            self.writing -= 1


async def read_through(node: CacheNodeUnderTest) -> tuple[str, int]:
    """List a large file that the quota does not allow to stay. Return the digest and the inode."""
    fill(node.store, {"large": LARGE})
    digest = await node.list()
    await node.configure(listingId="1", version=digest, quotaBytes=0)
    return digest, inode(node, digest, "large")


async def test_readers_of_two_pieces_make_room_for_both(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path, capacity=CHUNK, fetcher=RoomOfAChunk()) as node:
        digest, ino = await read_through(node)
        await node.read(digest, ino, 2 * CHUNK, 7)  # takes the room of other pieces
        read = await asyncio.gather(*(node.read(digest, ino, place, 10) for place in (0, CHUNK)))
        assert read == [LARGE[:10], LARGE[CHUNK : CHUNK + 10]]


async def test_a_disk_without_room_for_another_piece_gets_none_ahead(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path, capacity=CHUNK) as node:
        digest, ino = await read_through(node)
        await node.read(digest, ino, 0, 10)
        await node.node._datasets[UID].versions.fetchings[digest].drain()
        assert [get.offset for get in node.store.gets] == [0]


async def read_late(node: CacheNodeUnderTest, digest: str, ino: int, offset: int) -> bytes:
    """Read ten bytes like a busy FUSE server: open the file ``LAG`` s after the answer. Try three times."""
    for attempt in range(3):
        answer = await node.node.read(Read(UID, digest, ino, offset, 10, doubt=attempt > 0))
        await asyncio.sleep(LAG)
        with suppress(OSError):
            return content(answer)[offset : offset + 10]
    raise AssertionError(f"the bytes at {offset} were dropped three times before they were read")


async def test_slow_readers_of_two_pieces_do_not_drop_the_pieces_of_each_other(tmp_path: Path) -> None:
    async def read(start: int) -> list[bytes]:
        return [await read_late(node, digest, ino, start + place) for place in range(0, 200, 10)]

    async with open_cache_node(tmp_path, capacity=CHUNK, fetcher=RoomOfAChunk()) as node:
        digest, ino = await read_through(node)
        first, second = await asyncio.gather(read(0), read(CHUNK))
        assert b"".join(first) == LARGE[:200]
        assert b"".join(second) == LARGE[CHUNK : CHUNK + 200]
