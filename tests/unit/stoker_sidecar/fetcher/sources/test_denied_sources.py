"""A source that lists its objects and denies each of them: requests to it, and errors of readers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import AccessDenied, SourceError
from stoker_sidecar.fetcher.download.core.refusals import DeniedObjects
from stoker_sidecar.store.core.source_refusal import FEW, MOST_PACE, PACE
from stoker_sidecar.wire.fetcher_protocol import Read
from tests.support.cache_node import CacheNodeUnderTest, inode, open_cache_node
from tests.support.refusing_node import FILES, UNKNOWN_KEY, RefusedNode, RefusingStore, under

DENIED = AccessDenied("s3://bucket/p/m/000 answers AccessDenied: grant s3:GetObject")


@pytest.fixture
async def cache_node(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    async with open_cache_node(tmp_path, {"bucket": RefusingStore()}, passing=True) as node:
        yield node


@pytest.fixture
async def node(cache_node: CacheNodeUnderTest) -> RefusedNode:
    store = cache_node.store
    assert isinstance(store, RefusingStore)
    store.error = DENIED
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=False)
    return RefusedNode(cache_node, store, digest)


def in_eight(paths: list[str]) -> list[list[str]]:
    return [paths[number::8] for number in range(8)]


async def test_eight_readers_of_a_source_that_denies_everything_cost_it_a_request_every_few_seconds(
    node: RefusedNode,
) -> None:
    await node.outcomes(under("a")[:FEW])
    del node.store.asked[:]
    began = node.cache.clock()
    found = await asyncio.gather(*map(node.outcomes, in_eight(under("m"))))
    assert set.union(*found) == {Reason.ACCESS_DENIED}
    passed = node.cache.clock() - began
    assert passed >= 20
    assert len(node.store.asked) <= 1 + passed / PACE


async def listed(cache: CacheNodeUnderTest, uid: str) -> str:
    """List another Dataset of the same source. Return its version."""
    await cache.configure(uid=uid, name=uid, listingId="1")
    row = await cache.reach(lambda row: row.listing is not None and bool(row.listing.version), uid)
    assert row.listing is not None
    await cache.configure(uid=uid, name=uid, listingId="1", version=row.listing.version, eager=False)
    return row.listing.version


@pytest.mark.parametrize("error", [DENIED, UNKNOWN_KEY], ids=lambda error: str(error.reason))
async def test_datasets_of_one_source_together_ask_it_less_than_once_a_second(
    node: RefusedNode, error: SourceError
) -> None:
    node.store.error = error
    uids = ["uid-1", "uid-2", "uid-3"]
    digests = {uid: node.digest if uid == "uid-1" else await listed(node.cache, uid) for uid in uids}
    began = node.cache.clock()

    async def read(uid: str, path: str) -> None:
        ino = inode(node.cache, node.digest, path)  # equal in all Datasets, since they list the same objects
        with pytest.raises(SourceError):
            await node.cache.node.read(Read(uid, digests[uid], ino, 0, 1))

    for number in range(20):
        await asyncio.gather(*(read(uid, f"{folder}/{number:03}") for uid in uids for folder in "am"))
        node.cache.clock.ahead += 1.0
    assert len(node.store.asked) <= node.cache.clock() - began


async def test_denied_objects_that_are_read_again_and_again_cost_no_request_each(node: RefusedNode) -> None:
    for _ in range(100):
        await node.outcomes(["a/000"])
    assert node.store.asked.count("a/000") == 1


async def test_a_denied_object_is_asked_for_again_after_a_while(node: RefusedNode) -> None:
    await node.outcomes(["a/000"])
    node.store.refuses = lambda path: False
    node.cache.clock.ahead += DeniedObjects.FRESH
    assert await node.outcomes(["a/000"]) == {"ok"}


async def test_readable_files_next_to_many_denied_ones_are_read(node: RefusedNode) -> None:
    node.store.refuses = lambda path: path.startswith("m/")
    assert await node.outcomes(under("m")[:20]) == {Reason.ACCESS_DENIED}
    assert await node.outcomes([*under("a"), *under("z")]) == {"ok"}


async def test_denied_objects_are_not_paced_while_an_earlier_one_can_be_read(node: RefusedNode) -> None:
    node.store.refuses = lambda path: path.startswith("m/")
    await node.outcomes(["a/000"])
    began = node.cache.clock()
    assert await node.outcomes(under("m")) == {Reason.ACCESS_DENIED}
    assert node.cache.clock() - began < 2 * PACE


async def test_all_reads_work_at_once_when_the_source_lets_in_again(node: RefusedNode) -> None:
    await node.outcomes(under("a"))
    node.store.refuses = lambda path: False
    began = node.cache.clock()
    assert await node.outcomes([*under("m"), *under("z")]) == {"ok"}
    assert node.cache.clock() - began <= 1 + MOST_PACE


@pytest.mark.expected_logs("AccessDenied: the source denies its objects")  # while no other file has been tried
@pytest.mark.parametrize("folder", ["a", "m", "z"])
async def test_warming_passes_over_a_denied_folder(node: RefusedNode, folder: str) -> None:
    node.store.refuses = lambda path: path.startswith(f"{folder}/")
    await node.cache.configure(listingId="1", version=node.digest, eager=True)
    row = await node.cache.reach(lambda row: row.phase is NodePhase.FULL)
    assert row.error is not None
    assert row.error.reason == Reason.UNREADABLE_OBJECTS
    assert row.warm_files == len(FILES) - len(under(folder))


@pytest.mark.expected_logs("AccessDenied: the source denies its objects")
async def test_warming_of_a_source_that_denies_everything_costs_it_a_request_every_few_seconds(
    node: RefusedNode,
) -> None:
    began = node.cache.clock()
    await node.cache.configure(listingId="1", version=node.digest, eager=True)
    row = await node.cache.reach(lambda row: row.error is not None and not row.error.temporary)
    assert row.error is not None
    assert (row.error.reason, row.phase) == (Reason.ACCESS_DENIED, NodePhase.FAILED)
    assert len(node.store.asked) <= 2 * FEW + (node.cache.clock() - began) / PACE


@pytest.mark.expected_logs("AccessDenied: the source denies its objects")
async def test_a_denying_source_is_reported_while_warming_tries_other_files(node: RefusedNode) -> None:
    def refuses(path: str) -> bool:
        if len(node.store.asked) >= FEW:
            node.store.answers.clear()
        return True

    node.store.refuses = refuses
    await node.cache.configure(listingId="1", version=node.digest, eager=True)
    row = await node.cache.reach(lambda row: row.error is not None)
    assert row.error is not None
    assert (row.error.reason, row.error.temporary) == (Reason.ACCESS_DENIED, True)
    node.store.refuses = lambda path: True
    node.store.answers.set()
