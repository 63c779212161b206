"""A mounted Dataset that requests memory stays there, as the kernel shows, and is released after the unmount."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.datasets.cache_memory import NodeMemory, PinnedMemory
from stoker_sidecar.fetcher.node.memory_shares import NAME_BYTES
from stoker_sidecar.fetcher.node.pinning import PinSettings
from stoker_sidecar.linux.kernel_caches import cached_bytes, drop_pages
from tests.support.cache_node import CacheNodeUnderTest, fill, open_cache_node
from tests.support.cases import cases
from tests.support.waiting import SECONDS, eventually

SIZE = 40_000
FILES = {f"f{folder}/{number}": bytes([folder, number]) * (SIZE // 2) for folder in range(2) for number in range(4)}
TOTAL, NAMES = SIZE * len(FILES), len(FILES) + 3  # two folders and the root
PLENTY = 2**30


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    async with open_cache_node(tmp_path / "cache", pinning=PinSettings(PLENTY)) as one:
        fill(one.store, FILES)
        yield one


async def _pinned(node: CacheNodeUnderTest) -> PinnedMemory:
    await node.node.look_after()
    return node.status().memory or PinnedMemory()


async def _mount(node: CacheNodeUnderTest, digest: str, **wanted: object) -> None:
    await node.configure(listingId="1", version=digest, eager=True, held=(digest,), **wanted)


async def _until(node: CacheNodeUnderTest, count: int, names: int = 0) -> PinnedMemory:
    """Run the node's checks until this number of bytes and names is in memory."""
    async with asyncio.timeout(SECONDS):
        while ((found := await _pinned(node)).bytes, found.names) != (count, names):
            pass
    return node.status().memory or PinnedMemory()


def _in_memory_after_a_drop(node: CacheNodeUnderTest, digest: str) -> int:
    """Ask the kernel to drop the pages of all files. Return the number of bytes that stay."""
    total = 0
    for path in sorted((node.folder(digest) / "tree").rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            drop_pages(descriptor)
            total += min(SIZE, cached_bytes(descriptor) or 0)
            os.close(descriptor)
    return total


def _cached(path: Path, most: int = SIZE) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return min(most, cached_bytes(descriptor) or 0)
    finally:
        os.close(descriptor)


def _open_paths() -> list[str]:
    links = list(Path("/proc/self/fd").iterdir())
    return [str(path.readlink()) for path in links if path.is_symlink()]


def _gone(node: CacheNodeUnderTest) -> list[str]:
    """List the open files of the cache that are deleted."""
    return [path for path in _open_paths() if path.endswith("(deleted)") and path.startswith(str(node.root))]


async def test_contents_that_were_asked_for_stay_when_the_kernel_is_told_to_drop_them(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    await _mount(node, digest, memoryBytes=TOTAL)
    found = await _until(node, TOTAL)
    assert (found.wanted_bytes, found.locked_bytes, found.message) == (TOTAL, TOTAL, "")
    assert _in_memory_after_a_drop(node, digest) == TOTAL


async def test_no_more_stays_than_was_asked_for(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    await _mount(node, digest, memoryBytes=3 * SIZE)
    await _until(node, 3 * SIZE)
    assert 3 * SIZE <= _in_memory_after_a_drop(node, digest) < 4 * SIZE


async def test_it_is_given_back_with_the_last_volume(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    await _mount(node, digest, memoryBytes=TOTAL, memoryNames=True)
    await _until(node, TOTAL, NAMES)
    await node.configure(listingId="1", version=digest, eager=True, memoryBytes=TOTAL, memoryNames=True)
    await _until(node, 0)
    assert _in_memory_after_a_drop(node, digest) == 0
    assert NodeMemory.model_validate(node.node.progress().memory).pinned_bytes == 0


async def test_less_is_asked_for_and_the_rest_is_given_back(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    await _mount(node, digest, memoryBytes=TOTAL)
    await _until(node, TOTAL)
    await _mount(node, digest, memoryBytes=SIZE)
    await _until(node, SIZE)


async def test_nothing_stays_of_a_version_that_is_not_mounted(node: CacheNodeUnderTest) -> None:
    digest = await node.warm(memoryBytes=TOTAL)
    assert (await _pinned(node)).bytes == 0
    assert _in_memory_after_a_drop(node, digest) == 0


async def test_what_warm_paths_names_goes_first(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    await _mount(node, digest, memoryBytes=2 * SIZE, warmPaths=["f1/"])
    await node.reach(lambda s: s.warm_paths is not None)
    await _pinned(node)
    await _until(node, 2 * SIZE)
    _in_memory_after_a_drop(node, digest)
    tree = node.folder(digest) / "tree"
    async with asyncio.timeout(SECONDS):
        while [name for name in FILES if _cached(tree / name)] != ["f1/0", "f1/1"]:
            await _pinned(node)
            _in_memory_after_a_drop(node, digest)


async def test_names_are_held_by_descriptors(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    await _mount(node, digest, memoryNames=True)
    await _until(node, 0, NAMES)
    tree = str(node.folder(digest) / "tree")
    # Other files that threads have open at this moment are closed soon, by code that writes, checks or lists the tree.
    await eventually(lambda: len([path for path in _open_paths() if path.startswith(tree)]) == NAMES)


async def test_a_file_that_is_lost_is_let_go_so_that_its_blocks_are_free(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    await _mount(node, digest, memoryNames=True, memoryBytes=TOTAL)
    await _until(node, TOTAL, NAMES)
    dataset = next(iter(node.node._datasets.values()))
    version = dataset.versions.fetchings[digest].version
    entry = version.manifest.find("f0/0")
    assert entry is not None
    version.lose(entry)
    await eventually(lambda: version.warm_files == len(FILES) - 1 or version.complete)
    await _pinned(node)
    assert not _gone(node)


@cases(
    "settings, bytes_, locked, why",
    (PinSettings(0), 0, 0, "set sidecar.memory.pinned"),
    (PinSettings(2 * SIZE), 2 * SIZE, 2 * SIZE, "is shared by all Datasets"),
    (PinSettings(PLENTY, mappings=lambda: 0), TOTAL, 0, ""),
    (PinSettings(PLENTY, mappings=lambda: 3), TOTAL, 3 * SIZE, ""),
)
async def test_what_the_node_allows_is_what_stays(
    tmp_path: Path, settings: PinSettings, bytes_: int, locked: int, why: str
) -> None:
    async with open_cache_node(tmp_path / "cache", pinning=settings) as node:
        fill(node.store, FILES)
        digest = await node.warm()
        await _mount(node, digest, memoryBytes=TOTAL)
        found = await _until(node, bytes_)
        assert found.locked_bytes == locked
        assert why in found.message


async def test_names_beyond_the_descriptors_are_looked_up_again(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path / "cache", pinning=PinSettings(PLENTY, descriptors=lambda: 4)) as node:
        fill(node.store, FILES)
        digest = await node.warm()
        await _mount(node, digest, memoryNames=True)
        await _until(node, 0, NAMES)


async def test_names_that_have_no_room_are_told(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path / "cache", pinning=PinSettings(5 * NAME_BYTES)) as node:
        fill(node.store, FILES)
        digest = await node.warm()
        await _mount(node, digest, memoryNames=True)
        assert "sidecar.memory.pinned" in (await _until(node, 0, 5)).message


async def test_what_is_watched_is_read_again_once_the_kernel_took_pages(tmp_path: Path) -> None:
    taken = [0]
    settings = PinSettings(PLENTY, reclaim=lambda: f"pgsteal_file {taken[0]}\n", mappings=lambda: 0)
    async with open_cache_node(tmp_path / "cache", pinning=settings) as node:
        fill(node.store, FILES)
        digest = await node.warm()
        await _mount(node, digest, memoryBytes=TOTAL)
        await _until(node, TOTAL)
        assert _in_memory_after_a_drop(node, digest) == 0
        taken[0], node.clock.ahead = 1, 61
        async with asyncio.timeout(SECONDS):
            while _in_memory(node, digest) < TOTAL:
                await node.node.look_after()


def _in_memory(node: CacheNodeUnderTest, digest: str) -> int:
    here = 0
    for path in (node.folder(digest) / "tree").rglob("*"):
        if path.is_file():
            here += _cached(path)
    return here


async def test_a_large_file_is_locked_in_steps_and_given_back_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_sidecar.fetcher.node.pinned_tree.STEP_BYTES", 2**21)
    large = 16 * 2**20
    async with open_cache_node(tmp_path / "cache", pinning=PinSettings(PLENTY)) as node:
        fill(node.store, {"large": b"x" * large, "small": b"y" * SIZE})
        digest = await node.warm()
        await _mount(node, digest, memoryBytes=2 * large)
        assert (await _until(node, large + SIZE)).locked_bytes == large + SIZE
        await _mount(node, digest, memoryBytes=large // 2)
        assert (await _until(node, large // 2)).locked_bytes == large // 2
        tree = node.folder(digest) / "tree"
        _drop(tree / "large")
        assert large // 2 <= _cached(tree / "large", large) < large


async def test_a_file_that_was_replaced_is_let_go_and_kept_anew(tmp_path: Path) -> None:
    taken = [0]
    settings = PinSettings(PLENTY, reclaim=lambda: f"pgsteal_file {taken[0]}\n")
    async with open_cache_node(tmp_path / "cache", pinning=settings) as node:
        fill(node.store, FILES)
        digest = await node.warm()
        await _mount(node, digest, memoryBytes=TOTAL, memoryNames=True)
        await _until(node, TOTAL, NAMES)
        path, other = node.folder(digest) / "tree/f0/0", tmp_path / "other"
        other.write_bytes(path.read_bytes())
        other.replace(path)
        taken[0], node.clock.ahead = 1, 61
        async with asyncio.timeout(SECONDS):
            while _gone(node) or not _stays(path):
                await node.node.look_after()


@pytest.mark.expected_logs("cannot be kept in memory")
async def test_a_version_that_cannot_be_read_says_so(node: CacheNodeUnderTest) -> None:
    digest = await node.warm()
    for path in node.folder(digest).glob("manifest*"):
        path.write_bytes(b"damaged")
    await _mount(node, digest, memoryBytes=TOTAL)
    async with asyncio.timeout(SECONDS):
        while "cannot be kept in memory" not in (await _pinned(node)).message:
            pass


def _drop(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    drop_pages(descriptor)
    os.close(descriptor)


def _stays(path: Path) -> bool:
    _drop(path)
    return _cached(path) == SIZE
