"""A mounted version with few missing files becomes complete."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.datasets.completion_pass import AGAIN_SECONDS, QUIET_SECONDS
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually

README, OTHER = "README.md", "b/LICENSE"  # in separate folders, so that no readahead reaches them
DATA = {f"a/{number}": bytes([number]) * 10_000 for number in range(3)} | {OTHER: b"as you like"}
FILES = DATA | {README: b"what it is"}


async def _read_all_but(cache_node: CacheNodeUnderTest, *left: str, mounted: bool = True, **config: Any) -> str:
    """Let a pod read all files of an on-demand version except ``left``. Return the digest."""
    fill(cache_node.store, FILES)
    digest = await cache_node.list()
    held = (digest,) if mounted else ()
    await cache_node.configure(held=held, listingId="1", version=digest, **config)
    await cache_node.reach(lambda s: s.phase is NodePhase.IDLE)
    for path in sorted(FILES.keys() - set(left)):
        await cache_node.read(digest, inode(cache_node, digest, path), 0, 10_000)
    await cache_node.reach(lambda s: s.warm_files == len(FILES) - len(left))
    return digest


async def _wait_quietly(cache_node: CacheNodeUnderTest) -> None:
    """Let the time pass after which the last files are due."""
    await cache_node.node.look_after()
    cache_node.clock.ahead += QUIET_SECONDS + 1
    await cache_node.node.look_after()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], bool]:
    """Return a function that returns True if the node has logged the download of the last files."""
    caplog.set_level(logging.INFO)
    return lambda: "they are fetched, so that pods read it natively" in caplog.text


async def test_the_last_file_comes_when_nothing_has_come_for_a_while(
    cache_node: CacheNodeUnderTest, said: Callable[[], bool]
) -> None:
    digest = await _read_all_but(cache_node, README)
    await _wait_quietly(cache_node)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert said()
    assert (cache_node.tree(digest), (cache_node.folder(digest) / "complete").exists()) == (FILES, True)


async def test_it_waits_while_files_come(cache_node: CacheNodeUnderTest, said: Callable[[], bool]) -> None:
    digest = await _read_all_but(cache_node, README, OTHER)
    await cache_node.node.look_after()
    cache_node.clock.ahead += QUIET_SECONDS - 1
    await cache_node.read(digest, inode(cache_node, digest, OTHER), 0, 1)
    await cache_node.reach(lambda s: s.warm_files == len(FILES) - 1)
    await cache_node.node.look_after()
    cache_node.clock.ahead += 2
    await cache_node.node.look_after()
    assert not said()


async def test_what_is_much_is_not_fetched(cache_node: CacheNodeUnderTest, said: Callable[[], bool]) -> None:
    await _read_all_but(cache_node, README, "a/0")
    await _wait_quietly(cache_node)
    assert not said()


@pytest.mark.parametrize(
    "config",
    [{"mounted": False}, {"paused": True}, {"warmPaths": ["a/"]}, {"quotaBytes": sum(map(len, DATA.values()))}],
    ids=["not mounted", "paused", "paths", "quota"],
)
async def test_only_what_is_mounted_and_may_be_kept_is_made_whole(
    cache_node: CacheNodeUnderTest, said: Callable[[], bool], config: dict[str, Any]
) -> None:
    await _read_all_but(cache_node, README, **config)
    await _wait_quietly(cache_node)
    assert not said()


async def test_what_rules_keep_out_of_the_cache_is_not_fetched(
    cache_node: CacheNodeUnderTest, said: Callable[[], bool]
) -> None:
    digest = await _read_all_but(cache_node, README)
    cache_node.node.tune(Tune(UID, digest, (FileKnobs(cached=False),)))
    await _wait_quietly(cache_node)
    assert not said()


async def test_where_it_is_off_nothing_comes_unasked(tmp_path: Path, said: Callable[[], bool]) -> None:
    async with open_cache_node(tmp_path, last_files=False) as cache_node:
        await _read_all_but(cache_node, README)
        await _wait_quietly(cache_node)
        assert not said()


async def test_what_cannot_be_had_is_asked_for_again_minutes_later(cache_node: CacheNodeUnderTest) -> None:
    digest = await _read_all_but(cache_node, README)
    cache_node.store.delete(README)
    await _wait_quietly(cache_node)
    await eventually(lambda: _asked(cache_node) == 1)
    await _wait_quietly(cache_node)
    assert _asked(cache_node) == 1
    cache_node.store.put(README, FILES[README], mtime_ns=1_700_000_000_000_000_000)
    cache_node.clock.ahead += AGAIN_SECONDS
    await _wait_quietly(cache_node)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert cache_node.tree(digest) == FILES


def _asked(cache_node: CacheNodeUnderTest) -> int:
    return sum(get.path == README for get in cache_node.store.gets)
