"""A version that exceeds its quota, in a known order: each file is here before its read, and fetched once."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from stoker_sidecar.errors import ServerError
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.wire.fetcher_hints import WHOLE_FILE, PrefetchWindow
from stoker_sidecar.wire.fetcher_protocol import UNREAD_BYTES
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.next_use_model import hits_by_next_use
from tests.support.waiting import eventually
from tests.unit.stoker_sidecar.fetcher.node.test_known_orders import fetched, packed

SIZE, COUNT = 300, 30
NAMES = [f"f{number:02d}" for number in range(COUNT)]
FILES = {name: name.encode() * 100 for name in NAMES}
# Held but not kept: 20 files, 15 of them ahead of readers.
HELD, AHEAD = 20 * SIZE, 15


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    async with open_cache_node(tmp_path, transient=HELD) as node:
        yield node


async def _listed(node: CacheNodeUnderTest, quota: int, files: dict[str, bytes] | None = None) -> str:
    fill(node.store, files or FILES)
    digest = await node.list()
    await node.configure(listingId="1", version=digest, eager=False, quotaBytes=quota, held=(digest,))
    await node.reach(lambda status: status.files == len(files or FILES))
    return digest


class Pod:
    """A reader whose order reaches the node like from the agent: repeated windows from its position on."""

    def __init__(self, node: CacheNodeUnderTest, digest: str, name: str = "pod") -> None:
        self.node, self.digest, self.name = node, digest, name
        self.inodes = {path: inode(node, digest, path) for path in FILES}

    def prefetch(self, names: Sequence[str]) -> None:
        pieces = [(self.inodes[name], WHOLE_FILE) for name in names]
        self.node.node.prefetch(PrefetchWindow(UID, self.digest, self.name, packed(pieces)))

    async def read(self, name: str) -> None:
        assert await self.node.read(self.digest, self.inodes[name], 0, SIZE) == FILES[name]

    async def epochs(self, epochs: Sequence[Sequence[str]], told_every: int = 7) -> list[int]:
        """Read whole epochs. Return the downloads in each, which include those made ahead for the next epoch."""
        reads, counts, last = [name for epoch in epochs for name in epoch], list[int](), 0
        for at, name in enumerate(reads):
            if at % told_every == 0:
                self.prefetch(reads[max(0, at - 3) : at + COUNT])
                await self.settle()
            if self.node.tree(self.digest).get(name) is None:  # a complete file is read without a request
                await self.read(name)
            if (at + 1) % COUNT == 0:
                counts.append(len(fetched(self.node)) - last)
                last += counts[-1]
        return counts

    async def settle(self) -> None:
        """Let all allowed downloads arrive."""
        before = -1
        while before != len(fetched(self.node)):
            before = len(fetched(self.node))
            for _ in range(200):
                await asyncio.sleep(0)


def _orders(epochs: int) -> list[list[str]]:
    chance = random.Random(11)
    return [chance.sample(NAMES, COUNT) for _ in range(epochs)]


async def test_what_does_not_fit_comes_before_it_is_asked_for(small: CacheNodeUnderTest) -> None:
    digest = await _listed(small, 0)
    pod = Pod(small, digest)
    pod.prefetch(NAMES)
    await eventually(lambda: len(fetched(small)) == AHEAD)
    small.store.fail(ServerError("nothing comes any more"), 100)
    for name in NAMES[:AHEAD]:
        await pod.read(name)
    assert small.tree(digest) == {}


async def test_reading_makes_room_for_what_comes_behind(small: CacheNodeUnderTest) -> None:
    pod = Pod(small, await _listed(small, 0))
    pod.prefetch(NAMES)
    await eventually(lambda: len(fetched(small)) == AHEAD)
    for name in NAMES[:5]:
        await pod.read(name)
    await eventually(lambda: len(fetched(small)) == AHEAD + 5)
    assert fetched(small) == NAMES[: AHEAD + 5]


@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.5])
async def test_epochs_hit_what_a_cache_that_knows_the_future_hits(small: CacheNodeUnderTest, share: float) -> None:
    """Each file that is not kept is fetched once per epoch. That is the minimum, and no download is late."""
    room, orders = round(share * COUNT), _orders(4)
    pod = Pod(small, await _listed(small, room * SIZE))
    counts = await pod.epochs(orders)
    ahead = AHEAD  # files of an epoch that the one before it fetched
    hits = hits_by_next_use([[NAMES.index(name) for name in order] for order in orders], room)
    assert sum(counts) <= sum(COUNT - hit for hit in hits) + ahead
    assert len(small.tree(pod.digest)) == room


async def test_the_next_epoch_begins_with_what_is_here(small: CacheNodeUnderTest) -> None:
    first, following = _orders(2)
    pod = Pod(small, await _listed(small, 0))
    pod.prefetch([*first[-10:], *following])
    await pod.settle()
    for name in first[-10:]:
        await pod.read(name)
    await pod.settle()
    small.store.fail(ServerError("nothing comes any more"), 100)
    for name in following[:5]:
        await pod.read(name)


async def test_who_reads_on_has_nothing_fetched_twice(small: CacheNodeUnderTest) -> None:
    """The window starts a bit behind the readers. The node does not know their last reads."""
    (order,) = _orders(1)
    pod = Pod(small, await _listed(small, 0))
    await pod.epochs([order], told_every=1)
    assert sorted(fetched(small)) == NAMES


@pytest.mark.parametrize("seed", range(3))
async def test_readers_that_pass_each_other_have_nothing_fetched_twice(small: CacheNodeUnderTest, seed: int) -> None:
    """Loaders read a few files earlier or later than in the order, since each has its own batch."""
    chance, (order,) = random.Random(seed), _orders(1)
    pod = Pod(small, await _listed(small, 0))
    read = [name for _, name in sorted((place + chance.uniform(0, 4), name) for place, name in enumerate(order))]
    for at, name in enumerate(read):
        if at % 3 == 0:
            pod.prefetch(order[max(0, at - 8) :])
            await pod.settle()
        await pod.read(name)
    assert sorted(fetched(small)) == NAMES


async def test_what_several_readers_want_is_fetched_once_and_stays_for_all(small: CacheNodeUnderTest) -> None:
    digest = await _listed(small, 0)
    one, other = Pod(small, digest, "one"), Pod(small, digest, "other")
    one.prefetch(NAMES[:10])
    other.prefetch(NAMES[9::-1])
    await eventually(lambda: len(fetched(small)) == 10)
    for name in NAMES[:10]:
        await one.read(name)
    for name in NAMES[9::-1]:
        await other.read(name)
    assert len(fetched(small)) == 10


async def test_an_order_that_is_taken_back_fetches_nothing_more_and_what_is_kept_stays(
    small: CacheNodeUnderTest,
) -> None:
    pod = Pod(small, await _listed(small, 5 * SIZE))
    pod.prefetch(NAMES)
    await eventually(lambda: len(fetched(small)) == AHEAD + 5)
    kept = small.tree(pod.digest)
    pod.prefetch([])
    await pod.settle()
    for name in NAMES[:8]:
        if name not in kept:
            await pod.read(name)
    await pod.settle()
    assert len(fetched(small)) == AHEAD + 5
    assert small.tree(pod.digest) == kept


def _unread(node: CacheNodeUnderTest) -> int:
    return sum(row.value for row in node.node.progress().counts if row.name == UNREAD_BYTES)


async def test_what_is_fetched_in_vain_is_counted_and_no_more_than_is_held(small: CacheNodeUnderTest) -> None:
    """The reader has the files in memory, and asks for none of them."""
    digest = await _listed(small, 0)
    pod = Pod(small, digest)
    for start in range(0, 3 * COUNT, 5):
        pod.prefetch([NAMES[(start + place) % COUNT] for place in range(10)])
        await pod.settle()
    assert SIZE < _unread(small) <= HELD + AHEAD * SIZE
    assert len(fetched(small)) <= HELD // SIZE + AHEAD


async def test_what_was_counted_of_one_order_is_not_counted_of_the_next(small: CacheNodeUnderTest) -> None:
    pod = Pod(small, await _listed(small, 0))
    pod.prefetch(NAMES[:3])
    await eventually(lambda: len(fetched(small)) == 3)
    for names in ([], NAMES[10:11], []):
        pod.prefetch(names)
        await pod.settle()
    assert _unread(small) == 4 * SIZE


async def test_a_demand_is_not_held_up_by_what_is_ahead(small: CacheNodeUnderTest) -> None:
    pod = Pod(small, await _listed(small, 0))
    pod.prefetch(NAMES[:20])
    await eventually(lambda: len(fetched(small)) == AHEAD)
    for name in NAMES[25:]:
        await pod.read(name)
    for name in NAMES[:10]:
        await pod.read(name)
    assert [fetched(small).count(name) for name in NAMES[:10]] == [1] * 10


async def test_chunks_of_a_file_that_is_held_come_before_it_is_asked_for(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path, transient=8 * CHUNK) as node:
        content = bytes(range(256)) * (3 * CHUNK // 256)
        digest = await _listed(node, 0, {"large": content, "other": b"x"})
        ino = inode(node, digest, "large")
        node.node.prefetch(PrefetchWindow(UID, digest, "pod", packed([(ino, WHOLE_FILE)])))
        await eventually(lambda: [get.offset for get in node.store.gets] == [0, CHUNK, 2 * CHUNK])
        assert await node.read(digest, ino, CHUNK, 100) == content[CHUNK : CHUNK + 100]
        assert len(node.store.gets) == 3


async def test_a_file_larger_than_what_is_held_waits_for_its_readers(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path, transient=2 * CHUNK) as node:
        digest = await _listed(node, 0, {"large": bytes(2 * CHUNK), "small": b"x" * 10})
        pieces = [(inode(node, digest, name), WHOLE_FILE) for name in ("large", "small")]
        node.node.prefetch(PrefetchWindow(UID, digest, "pod", packed(pieces)))
        await eventually(lambda: fetched(node) == ["small"])
