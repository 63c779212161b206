"""A node that reads another part each epoch swaps in the files that return, within its quota."""

import random
import zlib
from collections.abc import Collection, Sequence

import pytest

from stoker_sidecar.errors import NotYetConfigured, ProtocolError
from stoker_sidecar.fetcher.download.next_epoch import NEXT, NOW
from stoker_sidecar.wire.fetcher_hints import FileKnobs, ReuseHints, Tune
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode
from tests.support.next_use_model import hits_of_what_came_first
from tests.unit.stoker_sidecar.fetcher.node.test_known_orders import fetched

SIZE, COUNT, KEPT = 300, 40, 10
NAMES = [f"f{number:02d}" for number in range(COUNT)]
FILES = {name: name.encode() * 100 for name in NAMES}


async def full(cache_node: CacheNodeUnderTest, kept: Sequence[str] = NAMES[:KEPT]) -> str:
    """List a version, and fill its quota with the files in ``kept``. Return the digest."""
    fill(cache_node.store, FILES)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=False, quotaBytes=KEPT * SIZE, held=(digest,))
    await cache_node.reach(lambda status: status.files == COUNT)
    tune(cache_node, digest)
    for name in kept:
        await read(cache_node, digest, name)
    assert set(cache_node.tree(digest)) == set(kept)
    return digest


def tune(cache_node: CacheNodeUnderTest, digest: str, important: Collection[str] = ()) -> None:
    """Turn prefetching off, since prefetched files would be kept. ``important`` files have a higher priority."""
    groups = bytearray(COUNT + 10)
    for name in important:
        groups[inode(cache_node, digest, name)] = 1
    knobs = (FileKnobs(ahead_files=0), FileKnobs(ahead_files=0, keep=3))
    cache_node.node.tune(Tune(UID, digest, knobs, zlib.compress(groups)))


async def read(cache_node: CacheNodeUnderTest, digest: str, name: str) -> None:
    if name not in cache_node.tree(digest):  # a complete file is read without a request
        assert await cache_node.read(digest, inode(cache_node, digest, name), 0, SIZE) == FILES[name]


def set_reuse_hints(
    cache_node: CacheNodeUnderTest, digest: str, now: Collection[str], following: Collection[str], reader: str = "pod"
) -> None:
    marks = bytearray(COUNT + 10)
    for mark, names in ((NOW, now), (NEXT, following)):
        for name in names:
            marks[inode(cache_node, digest, name)] |= mark
    cache_node.node.set_reuse_hints(ReuseHints(UID, digest, reader, zlib.compress(bytes(marks))))


async def test_what_comes_again_takes_the_place_of_what_does_not(cache_node: CacheNodeUnderTest) -> None:
    digest = await full(cache_node)
    set_reuse_hints(cache_node, digest, ["f20", "f21"], ["f20", *NAMES[: KEPT - 1]])
    await read(cache_node, digest, "f21")
    await read(cache_node, digest, "f20")
    assert set(cache_node.tree(digest)) == {"f20", *NAMES[: KEPT - 1]}
    assert cache_node.status().warm_bytes == KEPT * SIZE


async def test_plain_lru_does_not_use_the_next_epoch(cache_node: CacheNodeUnderTest) -> None:
    digest = await full(cache_node)
    cache_node.node.tune(Tune(UID, digest, (FileKnobs(ahead_files=0, reused=False),)))
    set_reuse_hints(cache_node, digest, ["f20"], ["f20", *NAMES[: KEPT - 1]])
    await read(cache_node, digest, "f20")
    assert set(cache_node.tree(digest)) == set(NAMES[:KEPT])


async def test_what_made_way_is_read_through(cache_node: CacheNodeUnderTest) -> None:
    digest = await full(cache_node)
    set_reuse_hints(cache_node, digest, ["f20"], ["f20", *NAMES[: KEPT - 1]])
    await read(cache_node, digest, "f20")
    left = NAMES[KEPT - 1]
    await read(cache_node, digest, left)
    assert left not in cache_node.tree(digest)


async def test_where_all_that_is_kept_comes_again_nothing_leaves(cache_node: CacheNodeUnderTest) -> None:
    digest = await full(cache_node)
    set_reuse_hints(cache_node, digest, ["f20", *NAMES[:5]], ["f20", *NAMES[5:KEPT]])
    await read(cache_node, digest, "f20")
    assert set(cache_node.tree(digest)) == set(NAMES[:KEPT])


async def test_what_rules_keep_first_makes_no_way(cache_node: CacheNodeUnderTest) -> None:
    digest = await full(cache_node)
    tune(cache_node, digest, NAMES[:KEPT])
    set_reuse_hints(cache_node, digest, ["f20"], ["f20"])
    await read(cache_node, digest, "f20")
    assert set(cache_node.tree(digest)) == set(NAMES[:KEPT])


async def test_when_it_is_taken_back_what_is_kept_stays(cache_node: CacheNodeUnderTest) -> None:
    digest = await full(cache_node)
    set_reuse_hints(cache_node, digest, ["f20"], ["f20"])
    cache_node.node.set_reuse_hints(ReuseHints(UID, digest, "pod"))
    await read(cache_node, digest, "f20")
    assert set(cache_node.tree(digest)) == set(NAMES[:KEPT])


async def test_a_version_that_is_not_open_and_marks_that_are_none_are_refused(cache_node: CacheNodeUnderTest) -> None:
    digest = await full(cache_node)
    with pytest.raises(NotYetConfigured, match="not open on this node"):
        cache_node.node.set_reuse_hints(ReuseHints(UID, "0" * 64, "pod"))
    with pytest.raises(ProtocolError, match="cannot be unpacked"):
        cache_node.node.set_reuse_hints(ReuseHints(UID, digest, "pod", b"odd"))


async def test_over_epochs_less_is_fetched_than_where_what_came_first_stays(cache_node: CacheNodeUnderTest) -> None:
    chance = random.Random(5)
    parts = [chance.sample(NAMES, COUNT)[::4] for _ in range(12)]
    digest = await full(cache_node, parts[0])
    before = len(fetched(cache_node))
    for part, following in zip(parts[1:], [*parts[2:], []], strict=True):
        for at, name in enumerate(part):
            if at % 5 == 0:
                set_reuse_hints(cache_node, digest, part[at:], following)
            await read(cache_node, digest, name)
        assert len(cache_node.tree(digest)) == KEPT
    came_first = sum(hits_of_what_came_first([[NAMES.index(name) for name in part] for part in parts], KEPT)[1:])
    hits = len(parts[0]) * (len(parts) - 1) - (len(fetched(cache_node)) - before)
    assert hits > came_first
