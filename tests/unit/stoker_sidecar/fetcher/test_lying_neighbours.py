"""What another node says or gives may be wrong: the bytes are right all the same, and who lied is asked no more."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.version.piece_maps import PieceMap
from stoker_sidecar.wire.fetcher_protocol import PEER_BYTES, PEER_WRONG
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import inode
from tests.support.divided_nodes import (
    ALL,
    FILES,
    NAMES,
    ONE,
    SHARDS,
    Alone,
    Linked,
    begin,
    count_of,
    nodes,
    whole,
    whole_in_time,
)
from tests.support.waiting import eventually

TOGETHER = Having(ALL.files, ALL.arrived, together=8)


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
@pytest.mark.parametrize(
    ("having", "gives"),
    [(ALL, b"\xff"), (ALL, None), (ALL, b""), (None, None), (TOGETHER, b"\xff"), (TOGETHER, None), (TOGETHER, b"")],
    ids=["wrong", "nothing", "too few", "silence", "wrong together", "nothing together", "too few together"],
)
async def test_whatever_another_node_says_the_bytes_are_right(
    tmp_path: Path, having: Having | None, gives: bytes | None, content: dict[str, bytes]
) -> None:
    async with nodes(tmp_path, Alone(having, gives), content, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        assert node.tree(digest) == content


async def test_who_gave_wrong_pieces_is_found_and_asked_no_more(tmp_path: Path) -> None:
    content = {f"shard-{number}": bytes([number]) * (2 * CHUNK + 5) for number in range(6)}
    liar = Alone(ALL, b"\xff")
    async with nodes(tmp_path, liar, content, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        wrong, asked = count_of(node, PEER_WRONG), len(liar.asked)
        content["new"] = b"new" * CHUNK
        node.store.put("new", content["new"])
        later = await node.list("2", version=digest)
        await begin(node, later, 0, listingId="2")
        await whole_in_time(node)
        assert wrong >= 1
        assert (len(liar.asked), node.tree(later)) == (asked, content)


@pytest.mark.parametrize("content", [FILES, SHARDS, ONE], ids=["small files", "shards", "one large file"])
async def test_who_says_too_early_that_it_has_all_has_nobody_fetch_its_share(
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


async def test_pieces_of_who_may_have_lied_are_asked_of_another_that_has_them(tmp_path: Path) -> None:
    class Between(Linked):
        """Its near node has all, and gives it wrong."""

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


async def test_no_reader_sees_a_piece_that_nothing_proves(tmp_path: Path) -> None:
    class Some(Alone):
        """Has one piece, and gives it wrong."""

        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            return Having(b"", 1, {ino: PieceMap(f"{ino}.00000000", b"\1" + bytes(8)) for ino in range(inodes)})

    async with nodes(tmp_path, Some(None, b"\xff"), ONE, count=1) as ((node,), digest):
        await begin(node, digest, 1)
        await eventually(lambda: count_of(node, PEER_BYTES) > 0)
        read = await node.read(digest, inode(node, digest, "model"), 0, CHUNK)
        assert read == ONE["model"][:CHUNK]


@pytest.mark.expected_logs("CorruptBody")
async def test_where_etags_are_no_md5s_nobody_is_called_a_liar(tmp_path: Path) -> None:
    store = MemoryStore(etag=lambda content: f"{hash(content) % 2**100:032x}")
    linked = Linked()
    async with nodes(tmp_path, linked, SHARDS, store=store) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole_in_time(first), whole_in_time(second))
        assert [count_of(node, PEER_WRONG) for node in (first, second)] == [0, 0]
        assert first.tree(digest) == second.tree(digest) == SHARDS
