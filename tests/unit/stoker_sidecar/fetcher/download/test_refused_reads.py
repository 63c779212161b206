"""Reads that a source refuses: requests to the source, errors of readers, and the report of the node."""

import asyncio
from functools import partial

import pytest

from stoker_api.names import Reason
from stoker_sidecar.errors import (
    AccessDenied,
    CacheDiskFailed,
    CorruptBody,
    EndpointUnreachable,
    ObjectGone,
    ServerError,
    SidecarError,
    SourceChanged,
    SourceError,
)
from stoker_sidecar.fetcher.download.core.failing_reads import CALM
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.store.core.source_refusal import FIRST
from tests.support.cache_node import UID, CacheNodeUnderTest, inode
from tests.support.refusing_node import FILES, UNKNOWN_KEY, RefusedNode, RefusingStore, under
from tests.support.waiting import eventually

DENIED = AccessDenied("s3://bucket/p/m/000 answers AccessDenied: grant s3:GetObject")
GONE = ObjectGone("s3://bucket/p/m/000 was deleted after the listing")
BROKEN = ServerError("s3://bucket/p/m/000 answers 500 InternalError")


@pytest.fixture
async def node(cache_node: CacheNodeUnderTest) -> RefusedNode:
    store = RefusingStore()
    cache_node.stores["bucket"] = store
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=False)
    cache_node.clock.stop()
    return RefusedNode(cache_node, store, digest)


async def test_reads_of_a_source_that_refuses_the_keys_cost_it_a_probe_now_and_then(node: RefusedNode) -> None:
    await node.outcomes(under("a")[:3])
    del node.store.asked[:]
    assert await node.outcomes(under("a")) == {Reason.INVALID_CREDENTIALS}
    assert node.store.asked == []
    node.cache.clock.ahead += FIRST
    assert await node.outcomes(under("z")) == {Reason.INVALID_CREDENTIALS}
    assert len(node.store.asked) == 1


async def test_a_probe_that_works_lets_all_reads_through(node: RefusedNode) -> None:
    await node.outcomes(under("a"))
    node.store.refuses = lambda path: False
    node.cache.clock.ahead += FIRST
    assert await node.outcomes(list(FILES)) == {"ok"}


async def test_new_keys_are_tried_at_once(node: RefusedNode) -> None:
    await node.outcomes(under("a"))
    node.store.refuses = lambda path: False
    elsewhere = {"uri": "s3://bucket/p", "region": "elsewhere"}  # another store, as with another identity
    await node.cache.configure(listingId="1", version=node.digest, eager=False, source=elsewhere)
    assert await node.outcomes(list(FILES)) == {"ok"}


async def test_a_folder_of_deleted_objects_costs_one_request_a_read_and_no_other_folder_anything(
    node: RefusedNode,
) -> None:
    node.store.refuses, node.store.error = lambda path: path.startswith("m/"), GONE
    await node.outcomes(under("m")[:1])
    del node.store.asked[:]
    assert await node.outcomes(under("m")[10:30]) == {Reason.OBJECT_GONE}
    assert len(node.store.asked) == 20
    assert await node.outcomes([*under("a"), *under("z")]) == {"ok"}


async def test_a_refusal_in_one_folder_starts_no_guesses_in_the_next(node: RefusedNode) -> None:
    node.store.error = DENIED
    await node.outcomes(["a/000"])
    del node.store.asked[:]
    await node.outcomes(["m/000", "z/000"])
    assert node.store.asked == ["m/000", "z/000"]


async def test_refused_objects_among_others_are_never_fetched_ahead_again(node: RefusedNode) -> None:
    node.store.refuses, node.store.error = lambda path: path[-1] in "258", DENIED
    await node.outcomes(under("m"))
    refused = [path for path in node.store.asked if path[-1] in "258"]
    assert len(refused) <= 2 * len(set(refused))  # once by readahead, and once by its reader


@pytest.mark.parametrize("error", [EndpointUnreachable("does not answer"), BROKEN], ids=["away", "500"])
async def test_an_outage_that_is_shorter_than_readers_wait_is_not_seen(node: RefusedNode, error: SourceError) -> None:
    left = 30

    def refuses(path: str) -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    node.store.refuses, node.store.error = refuses, error
    assert await node.read("a/000") == FILES["a/000"]


async def test_a_read_of_a_source_that_stays_away_fails_in_the_end(node: RefusedNode) -> None:
    node.store.error = EndpointUnreachable("does not answer")
    assert await node.outcomes(["a/000"]) == {Reason.ENDPOINT_UNREACHABLE}


@pytest.mark.parametrize(
    "error",
    [
        UNKNOWN_KEY,
        DENIED,
        GONE,
        SourceChanged("s3://bucket/p/a/000 is no longer the object that was listed"),
        EndpointUnreachable("does not answer"),
        CorruptBody("s3://bucket/p/a/000 has a wrong checksum"),
        CacheDiskFailed("the cache disk fails"),
    ],
    ids=lambda error: str(error.reason),
)
async def test_the_first_read_that_fails_is_in_the_status_at_once(node: RefusedNode, error: SidecarError) -> None:
    node.store.error = error
    assert await node.outcomes(["a/000"]) == {error.reason}
    assert node.told == error.reason


async def test_a_file_that_the_disk_cannot_hold_long_enough_is_in_the_status(
    node: RefusedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.store.refuses = lambda path: False
    monkeypatch.setattr(Fetching, "_place", lambda *_, **__: None)
    assert await node.outcomes(["a/000"]) == {Reason.CACHE_DISK_FAILED}
    assert node.told == Reason.CACHE_DISK_FAILED


async def test_the_node_says_what_reads_fail_with_until_they_work_again(node: RefusedNode) -> None:
    await node.outcomes(["a/000", "a/001"])
    row = node.cache.status()
    assert row.failing_reads is not None
    assert row.error is not None
    assert (row.failing_reads.reason, row.failing_reads.path) == (Reason.INVALID_CREDENTIALS, "a/000")
    assert row.failing_reads.version == node.digest
    assert row.error.message.startswith("reads of pods fail since ")
    node.store.refuses = lambda path: False
    node.cache.clock.ahead += FIRST
    await node.read("a/002")
    node.cache.clock.ahead += CALM
    assert node.told == ""
    assert node.cache.status().error is None


async def test_one_object_that_stays_refused_is_told_while_all_others_are_read(node: RefusedNode) -> None:
    node.store.refuses, node.store.error = lambda path: path == "m/007", DENIED
    await node.outcomes(["m/007"])
    node.cache.clock.ahead += CALM
    assert await node.outcomes(under("a")) == {"ok"}
    node.cache.clock.ahead += CALM
    assert node.told == Reason.ACCESS_DENIED


def _every_second(number: int, path: str) -> bool:
    return number % 2 == 0


async def test_failures_of_a_flapping_source_make_one_unchanging_row(node: RefusedNode) -> None:
    await node.outcomes(["a/000"])
    rows = set()
    for number in range(1, 20):
        node.store.refuses = partial(_every_second, number)
        node.cache.clock.ahead += FIRST
        await node.outcomes([f"a/{number:03}"])
        reads = node.cache.status().failing_reads
        assert reads is not None
        rows.add((reads.reason, reads.path, reads.message, reads.since))
    assert len(rows) == 1


async def test_a_download_that_fails_after_its_version_was_closed_is_no_error(node: RefusedNode) -> None:
    node.store.error = GONE
    node.store.answers.clear()
    fetching = await node.cache.node._datasets[UID].opened(node.digest)
    entry = fetching.version.manifest.entry(inode(node.cache, node.digest, "a/000"))
    assert entry is not None
    await fetching.stop()
    late = fetching.start(entry, 0, Lane.WARM)  # a warm pass that does not know about it
    assert late is not None
    await eventually(lambda: bool(node.store.asked))
    fetching.version.close()
    node.store.answers.set()
    await asyncio.wait([late])
    assert isinstance(late.exception(), ObjectGone)
