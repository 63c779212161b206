"""Effects of tuning files of a version, and unchanged behavior."""

import os
import zlib
from contextlib import closing
from dataclasses import replace

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import NotYetConfigured
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.tuning.core.grouping import CompiledChoice, FileGrouping
from stoker_sidecar.tuning.source import BuiltInRules
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from stoker_sidecar.wire.fetcher_protocol import PAGED_BYTES
from stoker_tuning.rules.facts import Surroundings
from stoker_tuning.vocabulary import OptimizationLevel
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode
from tests.support.cases import cases
from tests.support.waiting import eventually

FILES = {f"{folder}/{file}": b"x" * 100 for folder in ("a-shards", "m-model", "z-val") for file in range(5)}
LARGE = os.urandom(CHUNK) * 7 + b"the end"
SMALL_FILES = {f"train/{number:03}": b"y" * 100 for number in range(40)}


async def _cold(cache_node: CacheNodeUnderTest, content: dict[str, bytes]) -> str:
    fill(cache_node.store, content)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest)
    await cache_node.reach(lambda s: s.phase is NodePhase.IDLE)
    return digest


def _tune(cache_node: CacheNodeUnderTest, digest: str, knobs: FileKnobs, **by_folder: FileKnobs) -> None:
    """Tune all files of the version with ``knobs``, and files under each folder with its own knobs."""
    manifest = Manifest.open(cache_node.folder(digest) / "manifest.sqlite")
    groups = bytearray(manifest.last_ino + 1)
    for path, entry in manifest.walk():
        for number, folder in enumerate(by_folder, start=1):
            if path.decode().startswith(folder):
                groups[entry.ino] = number
    manifest.close()
    cache_node.node.tune(Tune(UID, digest, (knobs, *by_folder.values()), zlib.compress(groups)))


async def _warm(cache_node: CacheNodeUnderTest, digest: str, phase: NodePhase = NodePhase.WARM) -> list[str]:
    """Warm the version. Return the folders in the order in which their files arrived."""
    await cache_node.configure(listingId="1", version=digest, eager=True, bytesPerSecond=100_000_000)
    await cache_node.reach(lambda s: s.phase is phase)
    return list(dict.fromkeys(get.path.partition("/")[0] for get in cache_node.store.gets))


async def _started(cache_node: CacheNodeUnderTest, digest: str, path: str, offset: int = 0) -> int:
    """Read a byte, wait until the started downloads have arrived, and count the pieces."""
    await cache_node.read(digest, inode(cache_node, digest, path), offset, 1)
    await eventually(lambda: _landed(cache_node, digest) == len(cache_node.store.gets))
    return len(cache_node.store.gets)


def _landed(cache_node: CacheNodeUnderTest, digest: str) -> int:
    return cache_node.status().warm_files + cache_node.chunks_here(digest)


async def test_warm_up_is_in_the_order_of_ranks_whatever_the_names(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    first, late = FileKnobs(warm_rank=0), FileKnobs(warm_rank=3)
    _tune(cache_node, digest, FileKnobs(), **{"m-model": first, "a-shards": late})
    assert await _warm(cache_node, digest) == ["m-model", "z-val", "a-shards"]
    assert set(cache_node.tree(digest)) == set(FILES)


async def test_files_of_one_rank_are_warmed_up_in_turns_by_their_weights(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, {f"{folder}/{file:02}": b"x" * 100 for folder in "ab" for file in range(20)})
    _tune(cache_node, digest, FileKnobs(), b=FileKnobs(weight=16))
    await _warm(cache_node, digest)
    came = "".join(get.path[0] for get in cache_node.store.gets)
    assert came[:25] == "ba" + "bbbb" + "abbbb" * 3 + "abbb"
    assert came[25:] == "a" * 15


async def test_without_ranks_warm_up_is_in_the_order_of_names(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    _tune(cache_node, digest, FileKnobs(), **{"m-model": FileKnobs(ahead_files=3)})
    assert await _warm(cache_node, digest) == ["a-shards", "m-model", "z-val"]


async def test_what_is_not_to_be_cached_is_not_warmed_up_and_can_be_read(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    _tune(cache_node, digest, FileKnobs(), **{"m-model": FileKnobs(cached=False)})
    assert await _warm(cache_node, digest, NodePhase.FULL) == ["a-shards", "z-val"]
    assert await cache_node.read(digest, inode(cache_node, digest, "m-model/1"), 0, 100) == b"x" * 100
    assert "m-model/1" not in cache_node.tree(digest)


async def test_what_is_to_be_cached_again_is_warmed_up(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    _tune(cache_node, digest, FileKnobs(cached=False))
    await _warm(cache_node, digest, NodePhase.FULL)
    _tune(cache_node, digest, FileKnobs())
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)


@cases(
    "knobs, pieces",
    (FileKnobs(), 2),
    (FileKnobs(ahead_bytes=0), 1),
    (FileKnobs(ahead_bytes=5 * CHUNK), 6),
    (FileKnobs(streams=4), 4),
    (FileKnobs(ahead_bytes=5 * CHUNK, streams=2), 2),
)
async def test_chunks_that_the_first_read_of_a_large_file_starts(
    cache_node: CacheNodeUnderTest, knobs: FileKnobs, pieces: int
) -> None:
    digest = await _cold(cache_node, {"large": LARGE})
    _tune(cache_node, digest, knobs)
    assert await _started(cache_node, digest, "large") == pieces


@cases(
    "level, pieces",
    (OptimizationLevel.BASIC, {"large": 1, "small": 2}),
    (OptimizationLevel.BALANCED, {"large": 2, "small": 3}),
)
async def test_pieces_that_reads_in_order_start_at_a_level(
    cache_node: CacheNodeUnderTest, level: OptimizationLevel, pieces: dict[str, int]
) -> None:
    digest = await _cold(cache_node, {"large": LARGE} | SMALL_FILES)
    with closing(Manifest.open(cache_node.folder(digest) / "manifest.sqlite")) as manifest:
        grouping = FileGrouping(CompiledChoice(replace(BuiltInRules().choice(UID), level=level)), (Surroundings(),))
        groups = bytearray(manifest.last_ino + 1)
        for path, entry in manifest.walk():
            groups[entry.ino] = 0 if entry.is_dir else grouping.number(path.decode(), entry.size)
    cache_node.node.tune(Tune(UID, digest, grouping.knobs, zlib.compress(groups)))
    assert await _started(cache_node, digest, "large") == pieces["large"]
    for number in range(2):
        landed = await _started(cache_node, digest, f"train/{number:03}")
    assert landed - pieces["large"] == pieces["small"]


async def test_a_read_in_the_middle_of_a_file_starts_nothing_more_however_much_is_to_be_ahead(
    cache_node: CacheNodeUnderTest,
) -> None:
    digest = await _cold(cache_node, {"large": LARGE})
    _tune(cache_node, digest, FileKnobs(ahead_bytes=5 * CHUNK))
    assert await _started(cache_node, digest, "large", offset=3 * CHUNK) == 1


@pytest.mark.parametrize(("ahead", "pieces"), [(None, 3), (0, 2), (10, 12), (4096, 40)])
async def test_small_files_that_the_second_read_in_order_starts(
    cache_node: CacheNodeUnderTest, ahead: int | None, pieces: int
) -> None:
    digest = await _cold(cache_node, SMALL_FILES)
    _tune(cache_node, digest, FileKnobs(ahead_files=ahead))
    await _started(cache_node, digest, "train/000")
    assert await _started(cache_node, digest, "train/001") == pieces


async def test_what_comes_unasked_comes_without_warm_up_and_nothing_else_does(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    await cache_node.configure(listingId="1", version=digest, held=(digest,))
    _tune(cache_node, digest, FileKnobs(), **{"z-val": FileKnobs(unasked=True)})
    await eventually(lambda: cache_node.status().warm_files == 5)
    assert {path.partition("/")[0] for path in cache_node.tree(digest)} == {"z-val"}
    assert cache_node.status().phase is NodePhase.IDLE


async def test_nothing_comes_unasked_where_nobody_has_the_version_mounted(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    _tune(cache_node, digest, FileKnobs(unasked=True))
    await cache_node.read(digest, inode(cache_node, digest, "a-shards/0"), 0, 1)
    assert [get.path for get in cache_node.store.gets] == ["a-shards/0"]


async def test_what_comes_unasked_goes_when_it_is_held_later(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    _tune(cache_node, digest, FileKnobs(unasked=True))
    await cache_node.configure(listingId="1", version=digest, held=(digest,))
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)


async def test_what_comes_unasked_and_is_gone_is_left_to_who_reads_it(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    cache_node.store.delete("z-val/2")
    await cache_node.configure(listingId="1", version=digest, held=(digest,))
    _tune(cache_node, digest, FileKnobs(), **{"z-val": FileKnobs(unasked=True)})
    await eventually(lambda: cache_node.status().warm_files == 4)
    asked = len(cache_node.store.gets)
    await cache_node.read(digest, inode(cache_node, digest, "a-shards/0"), 0, 1)
    assert (len(cache_node.store.gets), cache_node.status().phase) == (asked + 1, NodePhase.IDLE)


async def test_a_dataset_that_the_fetcher_does_not_know_is_tuned_later(cache_node: CacheNodeUnderTest) -> None:
    with pytest.raises(NotYetConfigured):
        cache_node.node.tune(Tune("nobody's", "digest"))


def _paged(cache_node: CacheNodeUnderTest) -> int:
    return sum(count.value for count in cache_node.node.progress().counts if count.name == PAGED_BYTES)


async def _until_paged(cache_node: CacheNodeUnderTest, size: int) -> None:
    await eventually(lambda: _paged(cache_node) >= size)


async def _mounted(cache_node: CacheNodeUnderTest, digest: str, volumes: int) -> None:
    await cache_node.configure(listingId="1", version=digest, eager=True, held=(digest,) * volumes)


async def test_files_are_put_into_the_page_cache_for_each_volume_that_is_mounted(
    cache_node: CacheNodeUnderTest,
) -> None:
    fill(cache_node.store, FILES)
    digest = await cache_node.warm()
    _tune(cache_node, digest, FileKnobs(), **{"m-model": FileKnobs(paged=True)})
    for volumes in (1, 2, 1, 2):
        await _mounted(cache_node, digest, volumes)
        await _until_paged(cache_node, 500 * volumes)
    await _until_paged(cache_node, 1500)
    assert _paged(cache_node) == 1500


async def test_files_of_a_mounted_version_are_put_there_once_a_rule_says_so(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, FILES)
    digest = await cache_node.warm()
    await _mounted(cache_node, digest, 1)
    for _ in range(2):
        _tune(cache_node, digest, FileKnobs(warm_rank=1), **{"m-model": FileKnobs(paged=True)})
    await _until_paged(cache_node, 500)
    assert _paged(cache_node) == 500


async def test_what_is_not_on_the_disk_is_not_put_there(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, FILES)
    _tune(cache_node, digest, FileKnobs(paged=True))
    await cache_node.read(digest, inode(cache_node, digest, "m-model/1"), 0, 100)
    await cache_node.configure(listingId="1", version=digest, held=(digest,))
    await eventually(lambda: _paged(cache_node) > 0)
    assert _paged(cache_node) < 1500
