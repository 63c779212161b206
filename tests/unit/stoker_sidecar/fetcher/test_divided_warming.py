"""Nodes that warm one version at the same time: they divide it, whatever the others do."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker_api.node_dataset import EVERYTHING
from stoker_api.nodecache import NodePhase
from stoker_sidecar.errors import NotYetConfigured
from stoker_sidecar.fetcher.core.division import COMING, HAD, HELD
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having, Neighbours
from stoker_sidecar.fetcher.download.node_division import PATIENCE
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.store.base import Body
from stoker_sidecar.version.piece_maps import PieceMap, unpack_maps
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES, PEER_BYTES, PEER_WRONG, FileKnobs, Have, Reach, Tune
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually

FILES = {f"train/{number:03}": bytes([number]) * 50_000 for number in range(200)}
SHARDS = {f"shard-{number}": bytes([number]) * (2 * CHUNK + 5) for number in range(3)}
ONE = {"model": b"".join(bytes([number]) * CHUNK for number in range(8)) + b"end"}
NAMES = ("a:1", "b:1", "c:1")
ALL = Having(b"\1" * 10_000, 10**9)


class Linked:
    """Neighbours that are other CacheNodes of this process. ``mangle``: what becomes of what they give."""

    def __init__(self, mangle: Callable[[Ask, bytes], bytes] = lambda ask, content: content) -> None:
        self.nodes: dict[str, CacheNodeUnderTest] = {}
        self.given = 0
        self.asked: list[tuple[str, Ask]] = []
        self._mangle = mangle

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        try:
            had = await self.nodes[peer].node.have_more(Have(UID, self.nodes[peer].status().version, after))
        except (KeyError, NotYetConfigured):
            return None
        return Having(zlib.decompress(had.files), had.arrived, unpack_maps(had.pieces), had.choice, had.number)

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        folder = self.nodes[peer].folder(self.nodes[peer].status().version)
        whole = self.nodes[peer].folder(self.nodes[peer].status().version) / "tree" / ask.path
        if not whole.is_file() and ask.part and not await self._comes(peer, ask):
            return Came.NOTHING
        found = [path for path in (folder / "tree" / ask.path, folder / "parts" / (ask.part or "-")) if path.is_file()]
        if not found:
            return Came.ABSENT
        content = found[0].read_bytes()[ask.offset : ask.offset + ask.length]
        await asyncio.to_thread(write, self._mangle(ask, content))
        self.given += 1
        return Came.WHOLE

    def offsets(self) -> set[int]:
        """Where what was asked for begins."""
        return {ask.offset for _, ask in self.asked}

    async def _comes(self, peer: str, ask: Ask) -> bool:
        """Wait for a piece that may be on its way to a node, as its agent does."""
        node, piece = self.nodes[peer], ask.offset // CHUNK
        having = await self.having(peer, 0)
        maps = having.pieces.values() if having is not None else ()
        if any(one.name == ask.part and one.pieces[piece] in (HAD, HELD) for one in maps):
            return True
        here, restarts = 0, 0
        while here < ask.length:
            found = await node.node.reach(Reach(UID, node.status().version, ask.part, piece, here))
            if found.here <= here or (here and found.restarts != restarts):
                return False
            here, restarts = found.here, found.restarts
        return True


class Alone(Linked):
    """A neighbour that says and gives what it likes."""

    def __init__(self, having: Having | None, gives: bytes | None = None) -> None:
        super().__init__()
        self._having = having
        self._gives = gives

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        return self._having

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        if self._gives is None:
            return Came.NOTHING
        await asyncio.to_thread(write, (self._gives * ask.length)[: ask.length])
        return Came.WHOLE


@asynccontextmanager
async def nodes(
    folder: Path,
    neighbours: Neighbours,
    content: dict[str, bytes],
    count: int = 2,
    store: MemoryStore | None = None,
    capacity: int | None = None,
) -> AsyncIterator[tuple[list[CacheNodeUnderTest], str]]:
    """Open nodes of one bucket that know the version, with its digest."""

    @asynccontextmanager
    async def meet(folder: Path | None, uid: str, digest: str) -> AsyncIterator[Neighbours]:
        yield neighbours

    store = MemoryStore() if store is None else store
    fill(store, content)
    async with AsyncExitStack() as stack:
        found = []
        for name in NAMES[:count]:
            node = open_cache_node(folder / name, {"bucket": store}, meet=meet, capacity=capacity)
            found.append(await stack.enter_async_context(node))
        digests = [await node.list() for node in found]
        for opened in found:
            await opened.configure(listingId="1", version=digests[0])
            await opened.reach(lambda status: status.phase is NodePhase.IDLE)
        yield found, digests[0]


async def begin(node: CacheNodeUnderTest, digest: str, position: int, count: int = 2, **more: Any) -> None:
    """Have it warmed up, divided with the others."""
    peers = [name for name in NAMES[:count] if name != NAMES[position]]
    entry: dict[str, Any] = {"listingId": "1", "peers": peers, "position": position} | more
    await node.configure(version=digest, eager=True, **entry)


async def whole(node: CacheNodeUnderTest) -> None:
    await eventually(lambda: node.status().phase is NodePhase.WARM, 30.0)


async def paths_whole(node: CacheNodeUnderTest) -> None:
    await eventually(lambda: node.status().phase is NodePhase.PATHS_WARM, 30.0)


async def whole_in_time(node: CacheNodeUnderTest) -> None:
    """Wait for it while time passes quickly."""

    def is_whole() -> bool:
        node.clock.ahead += 1.0
        return node.status().phase is NodePhase.WARM

    await eventually(is_whole, 30.0)


def count_of(node: CacheNodeUnderTest, name: str) -> int:
    return sum(count.value for count in node.node.progress().counts if count.name == name)


@pytest.mark.parametrize("content", [FILES, SHARDS, ONE], ids=["small files", "shards", "one large file"])
@pytest.mark.parametrize("count", [2, 3])
async def test_nodes_fetch_each_byte_once_from_the_source(
    tmp_path: Path, content: dict[str, bytes], count: int
) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, content, count) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at, count) for at, node in enumerate(found)))
        await asyncio.gather(*map(whole, found))
        assert sum(get.length for get in found[0].store.gets) == sum(map(len, content.values()))
        assert all(node.tree(digest) == content for node in found)


async def test_what_others_wait_for_comes_a_few_pieces_at_a_time(tmp_path: Path) -> None:
    at_once = 0

    class Counting(MemoryStore):
        """Counts how many bodies are being read at the same time."""

        busy = 0

        @asynccontextmanager
        async def get_range(self, path: str, offset: int, length: int, **more: Any) -> AsyncIterator[Body]:
            nonlocal at_once
            self.busy += 1
            at_once = max(at_once, self.busy)
            try:
                async with super().get_range(path, offset, length, **more) as body:
                    await asyncio.sleep(0.01)  # so that whoever may come at the same time does
                    yield body
            finally:
                self.busy -= 1

    content = {"model": bytes(9 * CHUNK)}
    async with nodes(tmp_path, Alone(Having(b"", 1)), content, count=1, store=Counting()) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: len(node.store.gets) >= 4)
        assert at_once == 1


async def test_who_has_its_share_fetches_what_another_has_yet_to_begin(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(Having(b"", 1)), ONE, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: node.chunks_here(digest) == 8)  # of 9: the last one is the other's, who may begin it
        assert len(node.store.gets) == 8


async def test_who_says_for_ever_that_pieces_come_to_it_is_not_waited_for_as_long(tmp_path: Path) -> None:
    claims = {ino: PieceMap(f"{ino}.00000000", bytes([COMING]) * 9) for ino in range(1, 10)}
    async with nodes(tmp_path, Alone(Having(b"", 1, claims)), ONE, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        assert node.tree(digest) == ONE


async def test_of_one_large_file_each_node_fetches_its_share(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, ONE) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        shares = [count_of(node, FETCHED_BYTES) for node in (first, second)]
        assert min(shares) >= 4 * CHUNK
        assert [count_of(node, PEER_BYTES) for node in (first, second)] == shares[::-1]


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
async def test_a_node_that_comes_later_takes_all_from_the_one_that_has_it(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, content) as ((first, second), digest):
        await first.configure(listingId="1", version=digest, eager=True)
        await whole(first)
        linked.nodes, asked = {NAMES[0]: first}, len(first.store.gets)
        await begin(second, digest, 1)
        await whole(second)
        assert len(first.store.gets) == asked
        assert second.tree(digest) == content
        assert (second.status().source_bytes, second.status().peer_bytes) == (0, sum(map(len, content.values())))


HALF = EVERYTHING // 2


def grouped(at: int, *links: str) -> dict[str, Any]:
    """Return what a node of one of two groups is told."""
    return {"groups": {"links": links, "first": at * HALF, "width": HALF}}


@pytest.mark.parametrize("content", [FILES, SHARDS, ONE], ids=["small files", "shards", "one large file"])
async def test_groups_divide_a_version_and_give_it_to_each_other_by_links(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, content, count=3) as ((first, second, third), digest):
        linked.nodes = dict(zip(NAMES, (first, second, third), strict=True))
        begins = [
            begin(first, digest, 0, **grouped(0, "c:1")),
            begin(second, digest, 1, **grouped(0)),
            third.configure(listingId="1", version=digest, eager=True, **grouped(1, "a:1")),
        ]
        await asyncio.gather(*begins)
        await asyncio.gather(*map(whole, (first, second, third)))
        total = sum(map(len, content.values()))
        assert sum(get.length for get in first.store.gets) == total
        assert second.tree(digest) == third.tree(digest) == content
        assert 0.3 * total <= count_of(third, FETCHED_BYTES) <= 0.7 * total


async def test_what_a_group_that_never_comes_was_to_fetch_is_fetched_here(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(Having(b"", 5)), FILES, count=1) as ((node,), digest):
        await node.configure(listingId="1", version=digest, eager=True, **grouped(0, "x:1"))
        await whole_in_time(node)
        assert node.tree(digest) == FILES


async def test_where_no_other_node_answers_nobody_is_waited_for_long(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0, **grouped(0, "x:1"))
        await eventually(lambda: 0 < node.status().warm_files < len(FILES), 30.0)
        node.clock.ahead += 11.0
        await whole(node)
        assert node.tree(digest) == FILES


async def test_a_rule_may_have_each_node_fetch_all(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        for node in (first, second):
            node.node.tune(Tune(UID, digest, (FileKnobs(divided=False),)))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        assert (len(first.store.gets), linked.given) == (2 * len(FILES), 0)


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
@pytest.mark.parametrize(
    ("having", "gives"),
    [(ALL, b"\xff"), (ALL, None), (ALL, b""), (None, None)],
    ids=["wrong bytes", "nothing", "too few", "silence"],
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


async def test_a_large_file_that_nothing_would_prove_is_fetched_by_each(tmp_path: Path) -> None:
    store = MemoryStore(etag=lambda content: f"{len(content):032x}-3")
    linked = Linked()
    async with nodes(tmp_path, linked, SHARDS, store=store) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        assert (linked.given, sum(get.length for get in store.gets)) == (0, 2 * sum(map(len, SHARDS.values())))


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


async def test_one_that_seems_to_get_on_and_gives_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    class Growing(Alone):
        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            self.given += 1
            return Having(b"", self.given)

    async with nodes(tmp_path, Growing(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
async def test_what_another_node_does_not_give_in_time_is_asked_of_the_source(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    class Stalling(Alone):
        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            await asyncio.Event().wait()
            return Came.NOTHING

    async with nodes(tmp_path, Stalling(ALL), content, count=1) as ((node,), digest):
        await begin(node, digest, 0)

        def all_here() -> bool:
            node.clock.ahead += 0.1
            return node.status().warm_files == len(content)

        await eventually(all_here, 30.0)
        assert node.tree(digest) == content


async def test_one_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    class Busy(Linked):
        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            came = await super().bring(peer, ask, write) if len(self.asked) % 3 else Came.BUSY
            self.asked.append((peer, ask))
            return came

    linked = Busy()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        await first.configure(listingId="1", version=digest, eager=True)
        await whole(first)
        linked.nodes, asked = {NAMES[0]: first}, len(first.store.gets)
        await begin(second, digest, 1)
        await whole(second)
        assert len(first.store.gets) == asked


async def test_a_reader_of_what_another_node_is_to_fetch_waits_for_nobody(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: node.status().warm_files >= len(FILES) // 2 - 16)
        cold = min(FILES.keys() - node.tree(digest).keys())
        assert await node.read(digest, inode(node, digest, cold), 0, 50_000) == FILES[cold]
        assert node.status().phase is NodePhase.WARMING


async def test_a_reader_of_a_piece_that_another_node_gives_waits_for_nobody(tmp_path: Path) -> None:
    class Stalling(Alone):
        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            self.asked.append((peer, ask))
            await asyncio.to_thread(write, b"\xff" * 1000)
            await asyncio.Event().wait()
            return Came.NOTHING

    stalling = Stalling(ALL)
    async with nodes(tmp_path, stalling, ONE, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: bool(stalling.asked))
        offset = stalling.asked[0][1].offset
        read = await node.read(digest, inode(node, digest, "model"), offset, 2000)
        assert read == ONE["model"][offset : offset + 2000]


PART = ("shard-1", "train/1*", "train/00*")
OF_PART = {path: data for path, data in (FILES | SHARDS).items() if path.startswith(("shard-1", "train/1", "train/00"))}


@pytest.mark.parametrize("count", [2, 3])
async def test_of_a_chosen_part_each_byte_comes_once_from_the_source(tmp_path: Path, count: int) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES | SHARDS, count) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at, count, warmPaths=PART) for at, node in enumerate(found)))
        await asyncio.gather(*map(paths_whole, found))
        total = sum(map(len, OF_PART.values()))
        assert sum(get.length for get in found[0].store.gets) == total
        assert all(node.tree(digest) == OF_PART for node in found)
        parts = [node.status().warm_paths for node in found]
        assert [part and (part.files, part.warm_bytes) for part in parts] == [(len(OF_PART), total)] * count
        assert min(count_of(node, FETCHED_BYTES) for node in found) >= 2 * 16 * 50_000, "two groups at the least"


async def test_what_lies_beside_the_chosen_part_is_fetched_when_it_is_read(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        some = ["train/00*"]
        await asyncio.gather(begin(first, digest, 0, warmPaths=some), begin(second, digest, 1, warmPaths=some))
        await asyncio.gather(paths_whole(first), paths_whole(second))
        assert await first.read(digest, inode(first, digest, "train/150"), 0, 50_000) == FILES["train/150"]
        assert len(first.store.gets) == 11


async def test_a_share_of_a_chosen_part_comes_in_the_order_of_its_paths(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0, warmPaths=["train/1*", "train/00*"])
        await eventually(lambda: node.status().warm_files >= 62)
        assert [get.path[:7] for get in node.store.gets[:62]] == ["train/1"] * 52 + ["train/0"] * 10


async def test_one_that_warms_other_paths_is_not_waited_for_as_long_as_it_gets_on(tmp_path: Path) -> None:
    class Elsewhere(Alone):
        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            self.given += 1
            return Having(b"", self.given, choice="of another list")

    async with nodes(tmp_path, Elsewhere(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0, warmPaths=["train/1*"])
        await eventually(lambda: node.status().warm_files >= 52)
        node.clock.ahead += PATIENCE + 1
        await eventually(lambda: node.status().phase is NodePhase.PATHS_WARM, 10.0)  # 19 s before nobody is waited for


async def test_what_several_have_is_asked_of_the_nearest(tmp_path: Path) -> None:
    content = {f"{number}": bytes([number]) * 1000 for number in range(6)}
    linked = Linked()
    async with nodes(tmp_path, linked, content, count=3) as ((far, node, near), digest):
        for one in (far, near):
            await one.configure(listingId="1", version=digest, eager=True)
            await whole(one)
        linked.nodes = dict(zip(NAMES, (far, node, near), strict=True))
        await begin(node, digest, 1, 3, groups={"distances": [2, 0]})
        await whole(node)
        assert [peer for peer, _ in linked.asked] == ["c:1"] * len(content)
