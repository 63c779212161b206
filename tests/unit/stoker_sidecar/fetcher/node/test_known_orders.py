"""Files of a known order are fetched in that order, for all readers together, and only within the window."""

import asyncio
import struct
import zlib
from collections.abc import Sequence

import pytest

from stoker_sidecar.errors import NotYetConfigured
from stoker_sidecar.fetcher.node import known_orders
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.wire.fetcher_hints import WHOLE_FILE, FileKnobs, PrefetchWindow, Tune
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode
from tests.support.waiting import eventually

NAMES = [f"f{number:02d}" for number in range(20)]
FILES = {name: name.encode() * 100 for name in NAMES}
ORDER = [NAMES[number] for number in (7, 3, 19, 0, 12)]


def packed(pieces: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack("<II", *piece) for piece in pieces)


async def listed(cache_node: CacheNodeUnderTest, files: dict[str, bytes]) -> str:
    """List a version without unasked downloads."""
    fill(cache_node.store, files)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=False, held=(digest,))
    await cache_node.reach(lambda status: status.files == len(files))
    return digest


def prefetch(cache_node: CacheNodeUnderTest, digest: str, names: Sequence[str], reader: str = "pod") -> None:
    pieces = [(inode(cache_node, digest, name), WHOLE_FILE) for name in names]
    cache_node.node.prefetch(PrefetchWindow(UID, digest, reader, packed(pieces)))


def fetched(cache_node: CacheNodeUnderTest) -> list[str]:
    return [get.path for get in cache_node.store.gets]


async def test_files_come_in_the_order_that_is_known(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ORDER)
    await eventually(lambda: len(cache_node.tree(digest)) == len(ORDER))
    assert fetched(cache_node) == ORDER


async def test_several_readers_take_turns_and_share_what_both_want(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ["f01", "f02", "f03"], "one")
    prefetch(cache_node, digest, ["f11", "f02", "f13"], "other")
    await eventually(lambda: len(cache_node.tree(digest)) == 5)
    assert fetched(cache_node) == ["f01", "f11", "f02", "f03", "f13"]


async def test_a_later_window_takes_the_place_of_an_earlier_one(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ORDER)
    prefetch(cache_node, digest, ["f15"])
    await eventually(lambda: "f15" in cache_node.tree(digest))
    assert fetched(cache_node) == ["f15"]


async def test_nothing_is_fetched_any_more_once_the_order_is_taken_back(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ORDER)
    prefetch(cache_node, digest, [])
    await cache_node.read(digest, inode(cache_node, digest, "f05"), 0, 10)
    assert "f07" not in fetched(cache_node)


async def test_no_more_is_ahead_than_the_window(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_orders, "MOST_AHEAD_BYTES", 2 * 300)
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ORDER)
    await eventually(lambda: len(cache_node.tree(digest)) == 2)
    prefetch(cache_node, digest, ORDER[1:])
    await eventually(lambda: len(cache_node.tree(digest)) == 3)
    assert fetched(cache_node) == ORDER[:3]


async def test_chunks_of_a_large_file_come_one_by_one(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, {"large": bytes(3 * CHUNK)})
    large = inode(cache_node, digest, "large")
    cache_node.node.prefetch(PrefetchWindow(UID, digest, "pod", packed([(large, 2), (large, 0), (large, 99)])))
    await eventually(lambda: cache_node.chunks_here(digest) == 2)
    assert [get.offset for get in cache_node.store.gets] == [2 * CHUNK, 0]


async def test_numbers_of_no_file_are_passed_over(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    pieces = packed([(4_000_000_000, 0), (1, WHOLE_FILE), (inode(cache_node, digest, "f04"), 0)])
    cache_node.node.prefetch(PrefetchWindow(UID, digest, "pod", pieces + b"odd"))
    await eventually(lambda: "f04" in cache_node.tree(digest))


async def test_readers_that_are_foreseen_are_not_guessed_at(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ["f19"])
    await eventually(lambda: "f19" in cache_node.tree(digest))
    for name in ("f00", "f01", "f02"):
        await cache_node.read(digest, inode(cache_node, digest, name), 0, 10)
    await asyncio.sleep(0)
    assert fetched(cache_node) == ["f19", "f00", "f01", "f02"]


async def test_a_version_that_is_not_open_is_foreseen_later(cache_node: CacheNodeUnderTest) -> None:
    with pytest.raises(NotYetConfigured, match="not open on this node"):
        cache_node.node.prefetch(PrefetchWindow(UID, "0" * 64, "pod"))


async def test_an_object_that_is_gone_is_asked_for_once(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    cache_node.store.delete("f07")
    prefetch(cache_node, digest, ORDER)
    await eventually(lambda: len(cache_node.tree(digest)) == len(ORDER) - 1)
    asked = fetched(cache_node).count("f07")
    prefetch(cache_node, digest, [*ORDER, "f05"])
    await eventually(lambda: "f05" in cache_node.tree(digest))
    assert fetched(cache_node).count("f07") == asked


def move_on(cache_node: CacheNodeUnderTest, digest: str, gone: int, reader: str = "pod") -> None:
    cache_node.node.prefetch(PrefetchWindow(UID, digest, reader, gone=gone))


async def test_readers_that_move_on_in_their_window_have_more_of_it_fetched(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_orders, "MOST_AHEAD_BYTES", 2 * 300)
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ORDER)
    await eventually(lambda: len(cache_node.tree(digest)) == 2)
    move_on(cache_node, digest, 1)
    await eventually(lambda: len(cache_node.tree(digest)) == 3)
    move_on(cache_node, digest, 3)
    await eventually(lambda: len(cache_node.tree(digest)) == 5)
    assert fetched(cache_node) == ORDER


async def test_a_place_in_a_window_that_is_not_known_is_refused(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ORDER)
    with pytest.raises(NotYetConfigured, match="say it as a whole"):
        move_on(cache_node, digest, 1, "another")


async def test_an_order_is_not_followed_if_no_file_may_come_by_it(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    prefetch(cache_node, digest, ORDER)
    cache_node.node.tune(Tune(UID, digest, (FileKnobs(ahead_files=0, ordered=False),)))
    prefetch(cache_node, digest, ORDER)
    cache_node.node.prefetch(PrefetchWindow(UID, digest, "pod", gone=1))
    await cache_node.read(digest, inode(cache_node, digest, "f05"), 0, 10)
    assert fetched(cache_node) == ["f05"]


async def test_files_that_may_not_come_by_an_order_are_skipped(cache_node: CacheNodeUnderTest) -> None:
    digest = await listed(cache_node, FILES)
    groups = bytearray(len(FILES) + 10)
    groups[inode(cache_node, digest, "f07")] = 1
    cache_node.node.tune(Tune(UID, digest, (FileKnobs(), FileKnobs(ordered=False)), zlib.compress(groups)))
    prefetch(cache_node, digest, ORDER)
    await eventually(lambda: len(cache_node.tree(digest)) == len(ORDER) - 1)
    assert fetched(cache_node) == ORDER[1:]
