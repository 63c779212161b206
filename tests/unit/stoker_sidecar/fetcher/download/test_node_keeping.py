"""Files that a node keeps of a version that does not fit, with files of different priority."""

import os
import zlib
from pathlib import Path

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually

SHARDS = {f"a-shards/{number}": os.urandom(100) for number in range(8)}
MODEL = {f"z-model/{number}": os.urandom(100) for number in range(3)}
HIGH, LOW, _AS_EVER = FileKnobs(keep=2), FileKnobs(keep=0), FileKnobs()


def _tune(cache_node: CacheNodeUnderTest, digest: str, model: FileKnobs, others: FileKnobs = _AS_EVER) -> None:
    manifest = Manifest.open(cache_node.folder(digest) / "manifest.sqlite")
    groups = bytearray(manifest.last_ino + 1)
    for path, entry in manifest.walk():
        groups[entry.ino] = path.startswith(b"z-model/")
    manifest.close()
    cache_node.node.tune(Tune(UID, digest, (others, model), zlib.compress(groups)))


async def _full(cache_node: CacheNodeUnderTest, content: dict[str, bytes], quota: int, *, eager: bool = True) -> str:
    fill(cache_node.store, content)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=eager, quotaBytes=quota)
    await cache_node.reach(lambda s: s.phase is (NodePhase.FULL if eager else NodePhase.IDLE))
    return digest


async def test_files_of_a_higher_priority_take_the_place_of_those_that_came_first(
    cache_node: CacheNodeUnderTest,
) -> None:
    digest = await _full(cache_node, SHARDS | MODEL, 500)
    assert set(cache_node.tree(digest)) == {f"a-shards/{number}" for number in range(5)}
    _tune(cache_node, digest, HIGH)
    kept = {"a-shards/0": SHARDS["a-shards/0"], "a-shards/1": SHARDS["a-shards/1"]} | MODEL
    await eventually(lambda: cache_node.tree(digest) == kept)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.FULL and s.warm_files == 5)
    assert status.warm_bytes == 500
    assert not list((cache_node.root / "trash").iterdir())


async def test_what_made_way_is_read_through(cache_node: CacheNodeUnderTest) -> None:
    digest = await _full(cache_node, SHARDS | MODEL, 300)
    _tune(cache_node, digest, HIGH)
    await eventually(lambda: cache_node.tree(digest) == MODEL)
    for path, data in SHARDS.items():
        assert await cache_node.read(digest, inode(cache_node, digest, path), 0, 100) == data
    assert cache_node.tree(digest) == MODEL


@pytest.mark.parametrize("model", [FileKnobs(), LOW, FileKnobs(weight=64, warm_rank=0)])
async def test_what_came_first_stays_where_nothing_matters_more(
    cache_node: CacheNodeUnderTest, model: FileKnobs
) -> None:
    digest = await _full(cache_node, SHARDS | MODEL, 500)
    kept, gets = cache_node.tree(digest), len(cache_node.store.gets)
    _tune(cache_node, digest, model)
    cache_node.clock.ahead += 61
    await cache_node.node.look_after()
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
    assert (cache_node.tree(digest), len(cache_node.store.gets)) == (kept, gets)


async def test_a_large_file_takes_the_place_of_small_ones(cache_node: CacheNodeUnderTest) -> None:
    shards = {f"a-shards/{number}": os.urandom(CHUNK // 2) for number in range(4)}
    model = {"z-model/weights": os.urandom(CHUNK + 100)}
    digest = await _full(cache_node, shards | model, 2 * CHUNK)
    assert set(cache_node.tree(digest)) == set(shards)
    _tune(cache_node, digest, HIGH)
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL and s.warm_files == 2)
    assert cache_node.tree(digest) == {"a-shards/0": shards["a-shards/0"]} | model


async def test_a_file_that_would_not_fit_anyhow_drives_nothing_out(cache_node: CacheNodeUnderTest) -> None:
    digest = await _full(cache_node, SHARDS | {"z-model/weights": bytes(1000)}, 500)
    kept = cache_node.tree(digest)
    _tune(cache_node, digest, HIGH)
    cache_node.clock.ahead += 61
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
    assert cache_node.tree(digest) == kept


async def test_on_a_disk_that_is_full_files_of_a_higher_priority_are_kept(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path, capacity=500) as cache_node:
        fill(cache_node.store, SHARDS | MODEL)
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest, eager=True)
        await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
        _tune(cache_node, digest, HIGH)
        await eventually(lambda: set(MODEL) < set(cache_node.tree(digest)))
        assert len(cache_node.tree(digest)) == 5


async def test_where_nothing_is_warmed_up_way_is_made_for_what_a_reader_found_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[Fetching] = []
    take_up = Fetching.take_up

    def noted(fetching: Fetching, now: float) -> None:
        passes.append(fetching)
        take_up(fetching, now)

    monkeypatch.setattr(Fetching, "take_up", noted)
    async with open_cache_node(tmp_path, transient=100) as cache_node:
        digest = await _full(cache_node, SHARDS | MODEL, 300, eager=False)
        before = len(passes)
        _tune(cache_node, digest, FileKnobs(keep=2, ahead_files=0), FileKnobs(ahead_files=0))
        await eventually(lambda: len(passes) > before)  # else files are evicted at once, under the new rules
        first, others = list(SHARDS)[:3], list(SHARDS)[3:]
        for path in [*first, *MODEL, *others]:  # the other files evict files that were read through
            await cache_node.read(digest, inode(cache_node, digest, path), 0, 100)
        assert set(cache_node.tree(digest)) == set(first)
        await cache_node.configure(listingId="1", version=digest, eager=False, quotaBytes=301)  # triggers another check
        await eventually(lambda: cache_node.tree(digest) == {})
        for path, data in MODEL.items():
            assert await cache_node.read(digest, inode(cache_node, digest, path), 0, 100) == data
        assert cache_node.tree(digest) == MODEL


async def test_files_that_another_version_holds_too_do_not_leave(tmp_path: Path) -> None:
    store = MemoryStore()
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        first = await _full(cache_node, dict(list(SHARDS.items())[:5]) | {"b": b"x"}, 500)
        store.delete("b")
        fill(store, MODEL)
        second = await cache_node.list("2", version=first, eager=True, quotaBytes=500, retain=[first])
        await cache_node.configure(listingId="2", version=second, eager=True, quotaBytes=500, retain=[first])
        await cache_node.reach(lambda s: s.phase is NodePhase.FULL and s.version == second)
        shared = cache_node.tree(second)
        _tune(cache_node, second, HIGH)
        cache_node.clock.ahead += 61
        await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
        assert cache_node.tree(second) == shared
