"""Files that a new version takes over from another version of the same Dataset, by hard link."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.object_store import MemoryStore, md5_etag
from tests.support.cache_node import fill, open_cache_node

OLD = {"labels": b"OLD-LABELS-1", "left": b"x"}
NEW = {"labels": b"NEW-LABELS-2"}


def _of_size(data: bytes) -> str:
    return f"0-{len(data):x}"


def _in_parts(data: bytes) -> str:
    return f"{md5_etag(data)}-1"


async def test_a_file_of_another_source_is_not_taken_over_when_its_etag_is_no_hash(tmp_path: Path) -> None:
    stores = {"bucket": MemoryStore(etag=_of_size), "other": MemoryStore(etag=_of_size)}
    fill(stores["bucket"], OLD)
    fill(stores["other"], NEW)
    async with open_cache_node(tmp_path, stores) as node:
        await node.warm("1")
        assert node.tree(await node.warm("2", source={"uri": "s3://other/p"})) == NEW


@pytest.mark.parametrize("etag", [md5_etag, _in_parts])
async def test_a_file_of_another_source_is_taken_over_when_its_etag_is_a_hash(
    tmp_path: Path, etag: Callable[[bytes], str]
) -> None:
    stores = {"bucket": MemoryStore(etag=etag), "other": MemoryStore(etag=etag)}
    fill(stores["bucket"], OLD)
    fill(stores["other"], {"labels": OLD["labels"]})
    async with open_cache_node(tmp_path, stores) as node:
        await node.warm("1")
        await node.warm("2", source={"uri": "s3://other/p"})
        assert stores["other"].gets == []
