"""Nodes that warm one version at the same time: they divide it, whatever the others do."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from stoker_api.nodecache import NodePhase
from stoker_sidecar.errors import NotYetConfigured
from stoker_sidecar.fetcher.download.neighbours import Having, Neighbours
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.wire.fetcher_protocol import FileKnobs, Have, Tune
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually

FILES = {f"train/{number:03}": bytes([number]) * 50_000 for number in range(200)}
SHARDS = {f"shard-{number}": bytes([number]) * (CHUNK + 5) for number in range(8)}
NAMES = ("a:1", "b:1")
ALL = Having(b"\1" * 10_000, 10**9)


class Linked:
    """Neighbours that are other CacheNodes of this process."""

    def __init__(self) -> None:
        self.nodes: dict[str, CacheNodeUnderTest] = {}
        self.given = 0

    async def having(self, peer: str, inodes: int) -> Having | None:
        try:
            had = self.nodes[peer].node.have(Have(UID, self.nodes[peer].status().version))
        except (KeyError, NotYetConfigured):
            return None
        return Having(zlib.decompress(had.files), had.arrived)

    async def bring(self, peer: str, path: str, size: int, write: Callable[[bytes], None]) -> bool:
        node = self.nodes[peer]
        content = (node.folder(node.status().version) / "tree" / path).read_bytes()
        await asyncio.to_thread(write, content)
        self.given += 1
        return True


class Alone(Linked):
    """A neighbour that says and gives what it likes."""

    def __init__(self, having: Having | None, gives: bytes | None = None) -> None:
        super().__init__()
        self._having = having
        self._gives = gives

    async def having(self, peer: str, inodes: int) -> Having | None:
        return self._having

    async def bring(self, peer: str, path: str, size: int, write: Callable[[bytes], None]) -> bool:
        if self._gives is not None:
            await asyncio.to_thread(write, (self._gives * size)[:size])
        return self._gives is not None


@asynccontextmanager
async def nodes(
    folder: Path, neighbours: Neighbours, content: dict[str, bytes], count: int = 2
) -> AsyncIterator[tuple[list[CacheNodeUnderTest], str]]:
    """Open nodes of one bucket that know the version, with its digest."""

    @asynccontextmanager
    async def meet(folder: Path | None, uid: str, digest: str) -> AsyncIterator[Neighbours]:
        yield neighbours

    store = MemoryStore()
    fill(store, content)
    async with AsyncExitStack() as stack:
        found = []
        for name in NAMES[:count]:
            node = open_cache_node(folder / name, {"bucket": store}, meet=meet)
            found.append(await stack.enter_async_context(node))
        digests = [await node.list() for node in found]
        for opened in found:
            await opened.configure(listingId="1", version=digests[0])
            await opened.reach(lambda status: status.phase is NodePhase.IDLE)
        yield found, digests[0]


async def begin(node: CacheNodeUnderTest, digest: str, position: int, *, divided: bool = True) -> None:
    """Have it warmed up, divided with the other one."""
    node.node.tune(Tune(UID, digest, (FileKnobs(divided=divided),)))
    peers = [name for name in NAMES if name != NAMES[position]]
    await node.configure(listingId="1", version=digest, eager=True, peers=peers, position=position)


async def whole(node: CacheNodeUnderTest) -> None:
    await eventually(lambda: node.status().phase is NodePhase.WARM, 30.0)


async def whole_in_time(node: CacheNodeUnderTest) -> None:
    """Wait for it while time passes quickly."""

    def is_whole() -> bool:
        node.clock.ahead += 1.0
        return node.status().phase is NodePhase.WARM

    await eventually(is_whole, 30.0)


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
async def test_two_nodes_fetch_each_byte_once_from_the_source(tmp_path: Path, content: dict[str, bytes]) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, content) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=True))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        assert sum(get.length for get in first.store.gets) == sum(map(len, content.values()))
        assert first.tree(digest) == second.tree(digest) == content


async def test_a_node_that_comes_later_takes_all_from_the_one_that_has_it(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        await first.configure(listingId="1", version=digest, eager=True)
        await whole(first)
        linked.nodes, asked = {NAMES[0]: first}, len(first.store.gets)
        await begin(second, digest, 1)
        await whole(second)
        assert (len(first.store.gets) - asked, linked.given) == (0, len(FILES))


async def test_without_a_rule_each_node_fetches_all(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=True))
        await asyncio.gather(*(begin(node, digest, at, divided=False) for at, node in enumerate((first, second))))
        await asyncio.gather(whole(first), whole(second))
        assert (len(first.store.gets), linked.given) == (2 * len(FILES), 0)


@pytest.mark.parametrize(
    ("having", "gives"),
    [(ALL, b"\xff"), (ALL, None), (ALL, b""), (None, None)],
    ids=["wrong bytes", "nothing", "too few", "silence"],
)
async def test_whatever_another_node_says_the_bytes_are_right(
    tmp_path: Path, having: Having | None, gives: bytes | None
) -> None:
    async with nodes(tmp_path, Alone(having, gives), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        assert node.tree(digest) == FILES


async def test_shards_of_wrong_bytes_are_not_kept(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(ALL, b"\xff"), SHARDS, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole(node)
        assert node.tree(digest) == SHARDS


async def test_one_that_seems_to_get_on_and_gives_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    class Growing(Alone):
        async def having(self, peer: str, inodes: int) -> Having | None:
            self.given += 1
            return Having(b"", self.given)

    async with nodes(tmp_path, Growing(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)


async def test_a_reader_of_what_another_node_is_to_fetch_waits_for_nobody(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: node.status().warm_files >= len(FILES) // 2 - 16)
        cold = min(FILES.keys() - node.tree(digest).keys())
        assert await node.read(digest, inode(node, digest, cold), 0, 50_000) == FILES[cold]
        assert node.status().phase is NodePhase.WARMING
