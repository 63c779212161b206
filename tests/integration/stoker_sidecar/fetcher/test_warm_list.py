"""The fetcher process with a real S3 server, where an object of the bucket lists the paths to warm."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from tests.support.fetcher_node import FetcherNode, fetcher_node
from tests.support.s3 import S3Server

FILES = {f"d{index % 20:02}/f{index:04}": b"%d " % index * (index % 50) for index in range(2000)}
NAMED = [f"d{index % 20:02}/f{index:04}" for index in (n * 7 % 2000 for n in range(1200))]
LIST = "lists/subset.txt"


@asynccontextmanager
async def warming(s3: S3Server, folder: Path, listed: bytes) -> AsyncIterator[tuple[FetcherNode, str]]:
    """Run a fetcher that warms the paths in the bucket's list. Yields the node and the bucket."""
    bucket = await s3.bucket(FILES | {LIST: listed})
    async with fetcher_node(folder / "cache", s3.source(bucket)) as node:
        await node.warm(warmPaths=[f"/{LIST}"])
        yield node, bucket


async def test_the_list_is_fetched_first_and_its_lines_once_each(s3: S3Server, tmp_path: Path) -> None:
    async with warming(s3, tmp_path, "\n".join(["# 1,200 of 2,000", *NAMED, "d99/gone"]).encode()) as (node, bucket):
        part = (await node.reach(NodePhase.PATHS_WARM)).warm_paths
        assert part is not None
        assert (part.files, part.warm_files, part.unmatched, part.unmatched_paths) == (1200, 1200, 1, ("d99/gone",))
        tree = node.tree()
    assert tree.keys() == {LIST, *NAMED}
    assert all(tree[path] == FILES[path] for path in NAMED)
    came = s3.gets(bucket)
    assert came[0].endswith(LIST)
    assert len(came) == len(set(came))


async def test_a_wrong_line_is_told_with_its_number_and_nothing_else_comes(s3: S3Server, tmp_path: Path) -> None:
    async with warming(s3, tmp_path, b"d00/\nd01//f0001\n") as (node, bucket):
        error = (await node.reach(NodePhase.FAILED)).error
    assert error is not None
    assert (error.reason, error.temporary) == (Reason.WARM_LIST_INVALID, False)
    assert f"warm.list '{LIST}': line 2 of the list: the path 'd01//f0001'" in error.message
    assert [path.rpartition(bucket)[2].lstrip("/") for path in s3.gets(bucket)] == [LIST]
