"""With warm paths, a node fetches these paths in order. It fetches other files when they are read."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from tests.support.cache_node import CacheNodeUnderTest, fill, inode, open_cache_node

FOLDERS, EACH, SIZE = 5, 60, 100
FILES = {f"f{folder}/{number:03}": bytes([folder, number]) * 50 for folder in range(FOLDERS) for number in range(EACH)}
CHOSEN = ("f3/", "f1/00*", "f0/007")


async def _listed(cache_node: CacheNodeUnderTest) -> str:
    fill(cache_node.store, FILES)
    return await cache_node.list()


async def _warm(cache_node: CacheNodeUnderTest, digest: str, *paths: str) -> NodeDatasetStatus:
    await cache_node.configure(listingId="1", version=digest, eager=True, warmPaths=list(paths))
    return await cache_node.reach(lambda s: s.phase is NodePhase.PATHS_WARM)


def _came(cache_node: CacheNodeUnderTest) -> list[str]:
    return [get.path for get in cache_node.store.gets]


async def test_only_what_is_named_comes_and_in_that_order(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    status = await _warm(cache_node, digest, *CHOSEN)
    expected = [f"f3/{n:03}" for n in range(EACH)] + [f"f1/{n:03}" for n in range(10)] + ["f0/007"]
    assert cache_node.tree(digest) == {path: FILES[path] for path in expected}
    assert [path.partition("/")[0] for path in _came(cache_node)] == ["f3"] * 60 + ["f1"] * 10 + ["f0"]
    part = status.warm_paths
    assert part is not None
    assert (part.files, part.bytes, part.warm_files, part.warm_bytes) == (71, 71 * SIZE, 71, 71 * SIZE)
    assert (status.files, status.warm_files, status.eta_seconds) == (FOLDERS * EACH, 71, None)


async def test_the_rest_is_fetched_when_it_is_read(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    await _warm(cache_node, digest, "f3")
    assert await cache_node.read(digest, inode(cache_node, digest, "f2/005"), 0, SIZE) == FILES["f2/005"]
    status = await cache_node.reach(lambda s: s.warm_files == EACH + 1)
    assert (status.phase, status.warm_paths and status.warm_paths.warm_files) == (NodePhase.PATHS_WARM, EACH)


async def test_a_path_that_names_nothing_is_told_and_holds_up_nothing(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    part = (await _warm(cache_node, digest, "f9/", "f4/001")).warm_paths
    assert part is not None
    assert (part.unmatched, part.unmatched_paths, part.warm_files) == (1, ("f9/",), 1)


async def test_other_paths_are_warmed_as_soon_as_they_are_said(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    await _warm(cache_node, digest, "f3")
    await cache_node.configure(listingId="1", version=digest, eager=True, warmPaths=["f3", "f4"])
    status = await cache_node.reach(lambda s: s.warm_paths is not None and s.warm_paths.warm_files == 2 * EACH)
    assert status.phase is NodePhase.PATHS_WARM
    assert len(_came(cache_node)) == 2 * EACH


async def test_without_paths_all_is_warmed_again(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    await _warm(cache_node, digest, "f3")
    await cache_node.configure(listingId="1", version=digest, eager=True)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert (status.warm_files, status.warm_paths) == (FOLDERS * EACH, None)


async def test_who_names_everything_has_it_whole(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    await cache_node.configure(listingId="1", version=digest, eager=True, warmPaths=["f4", "**"])
    status = await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert status.warm_paths is not None
    assert _came(cache_node)[0].startswith("f4/")


async def test_a_quota_holds_for_what_is_named(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    named: dict[str, Any] = {"eager": True, "warmPaths": ["f3", "f1"], "quotaBytes": 70 * SIZE}
    await cache_node.configure(listingId="1", version=digest, **named)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
    assert status.warm_paths is not None
    assert (status.warm_paths.warm_files, status.warm_paths.files) == (70, 2 * EACH)


async def test_a_node_that_starts_anew_in_the_middle_fetches_what_is_left(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path / "cache") as first:
        digest = await _listed(first)
        slow: dict[str, Any] = {"eager": True, "warmPaths": list(CHOSEN), "bytesPerSecond": 20 * SIZE}
        await first.configure(listingId="1", version=digest, **slow)
        await first.reach(lambda s: s.warm_paths is not None and s.warm_paths.warm_files >= 5)
        stores = first.stores
    before = {get.path for get in stores["bucket"].gets}  # also those during the close
    here = {path for path in before if (first.folder(digest) / "tree" / path).exists()}
    stores["bucket"].gets.clear()
    async with open_cache_node(tmp_path / "cache", stores) as second:
        status = await _warm(second, digest, *CHOSEN)
        assert status.warm_paths is not None
        assert status.warm_paths.warm_files == 71
        assert not here & set(_came(second))
        assert len(here) + len(_came(second)) == 71


@pytest.mark.expected_logs("takes too long")
async def test_paths_that_take_too_long_are_refused_with_a_sentence(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_sidecar.fetcher.ondisk.choosing._MOST_SECONDS", 0.0)
    digest = await _listed(cache_node)
    await cache_node.configure(listingId="1", version=digest, eager=True, warmPaths=["**/007"])
    status = await cache_node.reach(lambda s: s.phase is NodePhase.FAILED)
    assert status.error is not None
    assert "begin with a folder" in status.error.message
    assert await cache_node.read(digest, inode(cache_node, digest, "f2/005"), 0, SIZE) == FILES["f2/005"]


async def test_files_that_come_while_the_choice_is_made_are_counted(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    await cache_node.configure(listingId="1", version=digest, paused=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.IDLE)
    reads = [cache_node.read(digest, inode(cache_node, digest, f"f3/{n:03}"), 0, SIZE) for n in range(20)]
    changing = cache_node.configure(listingId="1", version=digest, paused=True, warmPaths=["f3"])
    await asyncio.gather(changing, *reads)
    # Readahead may fetch more of the folder.
    await cache_node.reach(lambda s: s.warm_files >= 20 and _counted(s) == s.warm_files)


def _counted(status: NodeDatasetStatus) -> int:
    return status.warm_paths.warm_files if status.warm_paths is not None else -1
