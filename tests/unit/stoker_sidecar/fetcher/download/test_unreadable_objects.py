"""Objects that the source refuses affect only themselves, and are counted with an example."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_sidecar.errors import AccessDenied, InvalidSource, ServerError, SourceError
from stoker_sidecar.fetcher.download.core.refusals import FIRST, MOST, Refusals
from stoker_sidecar.store.base import Body
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import CacheNodeUnderTest, inode

ARCHIVED = InvalidSource("s3://bucket/p/m is archived: restore it first, or exclude it by source.exclude")
DENIED = AccessDenied("s3://bucket/p/m answers AccessDenied: grant s3:GetObject")
OTHER_KEY = ServerError("s3://bucket/p/m answers 400 KMS.DisabledException", temporary=False)


class RefusingStore(MemoryStore):
    """A store that lists all of its objects and refuses to send some, by default those under ``prefix``."""

    prefix: str = "m/"
    error: SourceError = ARCHIVED

    @asynccontextmanager
    async def get_range(self, path: str, offset: int, length: int, **wanted: Any) -> AsyncIterator[Body]:
        """See ObjectStore."""
        if path.startswith(self.prefix):
            raise self.error
        async with super().get_range(path, offset, length, **wanted) as body:
            yield body


def fill(node: CacheNodeUnderTest, error: SourceError, prefix: str = "m/") -> dict[str, bytes]:
    """Give the node a source with a refused folder between two others. Return the readable files."""
    store = RefusingStore()
    store.error, store.prefix = error, prefix
    files = {f"{folder}/{number:03}": f"{folder}{number}".encode() for folder in "amz" for number in range(40)}
    for path, content in files.items():
        store.put(path, content)
    node.stores["bucket"] = store
    return {path: content for path, content in files.items() if not path.startswith(prefix)}


async def settled(node: CacheNodeUnderTest) -> NodeDatasetStatus:
    """Warm the version. Return the status once nothing more can be fetched."""
    digest = await node.list()
    await node.configure(listingId="1", version=digest, eager=True)
    return await node.reach(lambda s: s.phase is NodePhase.FULL)


@pytest.mark.parametrize("error", [ARCHIVED, DENIED, OTHER_KEY], ids=["archived", "denied", "other key"])
@pytest.mark.parametrize("prefix", ["m/", "a/", "z/039"], ids=["a folder", "the first folder", "the last object"])
async def test_all_other_files_are_warm_and_the_refused_are_counted(
    cache_node: CacheNodeUnderTest, error: SourceError, prefix: str
) -> None:
    readable = fill(cache_node, error, prefix)
    status = await settled(cache_node)
    assert cache_node.tree(status.version) == readable
    assert status.error is not None
    assert (status.error.reason, status.error.temporary) == (Reason.UNREADABLE_OBJECTS, False)
    count = 120 - len(readable)
    assert status.error.message == f"{count} of 120 objects cannot be read, such as: {error.message}"


async def test_a_reader_of_a_refused_object_gets_its_error(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node, DENIED)
    status = await settled(cache_node)
    with pytest.raises(AccessDenied, match="s3:GetObject"):
        await cache_node.read(status.version, inode(cache_node, status.version, "m/001"), 0, 1)


async def test_one_that_becomes_readable_is_fetched_with_new_credentials(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node, DENIED)
    status = await settled(cache_node)
    store = cache_node.stores["bucket"]
    assert isinstance(store, RefusingStore)
    store.prefix = "none"
    source = {"uri": "s3://bucket/p", "region": "elsewhere"}
    await cache_node.configure(listingId="1", version=status.version, eager=True, source=source)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.error is None)


@pytest.mark.expected_logs("AccessDenied")
async def test_a_source_of_which_nothing_can_be_read_is_at_fault_itself(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node, DENIED, prefix="")
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True)
    status = await cache_node.reach(lambda s: s.error is not None)
    assert status.error is not None
    assert (status.phase, status.error.reason) == (NodePhase.FAILED, Reason.ACCESS_DENIED)


def test_what_is_refused_is_asked_for_again_after_longer_and_longer_times() -> None:
    refusals, now, waits = Refusals(), 0.0, []
    for _ in range(10):
        refusals.note(DENIED, now)
        waits.append(refusals.left(now))
        now += waits[-1]
    assert waits[:3] == [FIRST, 2 * FIRST, 4 * FIRST]
    assert waits[-1] == MOST


def test_a_pass_before_that_time_does_not_put_it_off() -> None:
    refusals = Refusals()
    refusals.note(DENIED, 0.0)
    refusals.note(DENIED, FIRST / 2)
    assert refusals.left(FIRST / 2) == FIRST / 2
