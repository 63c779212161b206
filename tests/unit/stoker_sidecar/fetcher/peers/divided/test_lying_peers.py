"""A peer may send wrong data. Readers get the right bytes, and the peer is not asked again."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.support.forgery import crc64nvme, forged
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.wire.fetcher_protocol import PEER_BYTES, PEER_WRONG
from tests.fakes.object_store import MemoryStore, md5_etag, multipart_etag
from tests.support.cache_node import inode
from tests.support.divided_nodes import (
    ALL,
    FILES,
    NAMES,
    ONE,
    SHARDS,
    Alone,
    Linked,
    Taken,
    begin,
    count_of,
    nodes,
    whole,
    whole_in_time,
)
from tests.support.waiting import eventually

FORGED = b"the best move: other bytes with the right CRC"
PART = 5 * 2**20


def _crc64nvme(content: bytes) -> Checksum:
    return Checksum("crc64nvme", crc64nvme(content).to_bytes(8, "big"))


@pytest.mark.parametrize(
    ("content", "part_size", "together"),
    [(FILES, 0, 0), (FILES, 0, 8), (SHARDS, 0, 0), (SHARDS, PART, 0)],
    ids=["small files one by one", "small files together", "shards", "shards put in parts"],
)
@pytest.mark.parametrize("gives", [FORGED, b"\xff", None, b""], ids=["forged", "wrong", "nothing", "too few"])
async def test_the_bytes_are_right_for_any_answer_of_a_peer(
    tmp_path: Path, gives: bytes | None, content: dict[str, bytes], part_size: int, together: int
) -> None:
    having = Having(ALL.files, ALL.arrived, together=together)
    liar = Taken(content, lambda ask, piece: forged(piece), having) if gives is FORGED else Alone(having, gives)
    etag = multipart_etag(part_size) if part_size else md5_etag
    store = MemoryStore(etag=etag, states=_crc64nvme, part_size=part_size)
    async with nodes(tmp_path, liar, content, count=1, store=store) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        assert liar.asked
        assert node.tree(digest) == content


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
async def test_files_are_whole_without_answers_of_the_peer(tmp_path: Path, content: dict[str, bytes]) -> None:
    async with nodes(tmp_path, Alone(None), content, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        assert node.tree(digest) == content


async def test_a_peer_with_wrong_pieces_gets_no_more_requests(tmp_path: Path) -> None:
    content = {f"shard-{number}": bytes([number]) * (CHUNK + 5) for number in range(6)}
    liar = Alone(ALL, b"\xff")
    async with nodes(tmp_path, liar, content, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        wrong, asked = count_of(node, PEER_WRONG), len(liar.asked)
        content["new"] = b"new" * (CHUNK // 2)
        node.store.put("new", content["new"])
        later = await node.list("2", version=digest)
        await begin(node, later, 0, listingId="2")
        await whole_in_time(node)
        assert wrong >= 1
        assert (len(liar.asked), node.tree(later)) == (asked, content)


@pytest.mark.parametrize("content", [FILES, SHARDS, ONE], ids=["small files", "shards", "one large file"])
async def test_a_peer_that_claims_all_files_too_early_still_fetches_its_share(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    class Boasting(Linked):
        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            truth = await super().having(peer, inodes, after)
            first, self.answers = self.answers < 2, self.answers + 1
            return ALL if first else truth

        answers = 0

    linked = Boasting()
    async with nodes(tmp_path, linked, content) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at) for at, node in enumerate(found)))
        await asyncio.gather(*map(whole, found))
        assert sum(get.length for get in found[0].store.gets) == sum(map(len, content.values()))


async def test_pieces_of_a_lying_peer_come_from_another_peer(tmp_path: Path) -> None:
    class Between(Linked):
        """A near node that has all files, and sends wrong bytes."""

        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            return ALL if peer == NAMES[1] else await super().having(peer, inodes, after)

        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            if peer != NAMES[1]:
                return await super().bring(peer, ask, write)
            self.asked.append((peer, ask))
            await asyncio.to_thread(write, b"\xff" * ask.length)
            return Came.WHOLE

    linked = Between()
    async with nodes(tmp_path, linked, ONE) as ((far, node), digest):
        await far.configure(listingId="1", version=digest, eager=True)
        await whole(far)
        linked.nodes, asked = {NAMES[0]: far}, len(far.store.gets)
        await begin(node, digest, 2, 3, groups={"distances": [2, 0]})
        await whole(node)
        assert NAMES[1] in [peer for peer, _ in linked.asked]
        assert (node.tree(digest), len(far.store.gets)) == (ONE, asked)
        assert count_of(node, PEER_WRONG) > 0


async def test_readers_never_see_an_unproven_piece(tmp_path: Path) -> None:
    class Some(Alone):
        """Has one piece, and sends wrong bytes."""

        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            return Having(b"", 1, {ino: PieceMap(f"{ino}.00000000", b"\1" + bytes(8)) for ino in range(inodes)})

    async with nodes(tmp_path, Some(None, b"\xff"), ONE, count=1) as ((node,), digest):
        await begin(node, digest, 1)
        await eventually(lambda: count_of(node, PEER_BYTES) > 0)
        read = await node.read(digest, inode(node, digest, "model"), 0, CHUNK)
        assert read == ONE["model"][:CHUNK]


@pytest.mark.expected_logs("CorruptBody")
async def test_etags_without_md5_blame_no_peer(tmp_path: Path) -> None:
    store = MemoryStore(etag=lambda content: f"{hash(content) % 2**100:032x}")
    linked = Linked()
    async with nodes(tmp_path, linked, SHARDS, store=store) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole_in_time(first), whole_in_time(second))
        assert [count_of(node, PEER_WRONG) for node in (first, second)] == [0, 0]
        assert first.tree(digest) == second.tree(digest) == SHARDS
