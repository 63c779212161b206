"""The fetcher process against a real S3 server, where an object of the bucket lists what is warmed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stoker_api.names import Reason
from stoker_api.nodecache import NodePhase
from stoker_sidecar.wire.fetcher_protocol import Configure, Done
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.s3 import CREDENTIALS, S3Server, running_s3

FILES = {f"d{index % 20:02}/f{index:04}": b"%d " % index * (index % 50) for index in range(2000)}
NAMED = [f"d{index % 20:02}/f{index:04}" for index in (n * 7 % 2000 for n in range(1200))]
LIST = "lists/subset.txt"
UID = "uid-1"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


async def _bucket(s3: S3Server, listed: bytes) -> str:
    name, content = f"bucket-{uuid4().hex[:10]}", list((FILES | {LIST: listed}).items())
    async with s3.client() as client:
        await client.create_bucket(Bucket=name)
        for batch in range(0, len(content), 10):  # ten at a time: as many connections as the client keeps
            some = content[batch : batch + 10]
            await asyncio.gather(*(client.put_object(Bucket=name, Key=path, Body=data) for path, data in some))
    return name


async def _configure(fetcher: FetcherProcess, s3: S3Server, bucket: str, **changes: Any) -> None:
    source = {"uri": f"s3://{bucket}", "endpoint": s3.endpoint}
    dataset = {"namespace": "n", "name": "set", "uid": UID, "source": source, "listingId": "1"} | changes
    assert await fetcher.ask(Configure(dataset, CREDENTIALS)) == Done()


async def _warm(fetcher: FetcherProcess, s3: S3Server, bucket: str) -> str:
    """Have the version warmed as its list says; its digest."""
    await _configure(fetcher, s3, bucket)
    status = await fetcher.reach(lambda s: s.listing is not None)
    assert status.listing is not None
    await _configure(fetcher, s3, bucket, version=status.listing.version, eager=True, warmPaths=[f"/{LIST}"])
    return status.listing.version


async def test_the_list_is_fetched_first_and_its_lines_once_each(s3: S3Server, tmp_path: Path) -> None:
    bucket = await _bucket(s3, "\n".join(["# 1,200 of 2,000", *NAMED, "d99/gone"]).encode())
    async with fetcher_process(tmp_path / "cache") as fetcher:
        digest = await _warm(fetcher, s3, bucket)
        part = (await fetcher.reach(lambda s: s.phase is NodePhase.PATHS_WARM)).warm_paths
    assert part is not None
    assert (part.files, part.warm_files, part.unmatched, part.unmatched_paths) == (1200, 1200, 1, ("d99/gone",))
    tree = tmp_path / "cache" / "datasets" / UID / "versions" / digest / "tree"
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == {LIST, *NAMED}
    assert all((tree / path).read_bytes() == FILES[path] for path in NAMED)
    came = s3.gets(bucket)
    assert came[0].endswith(LIST)
    assert len(came) == len(set(came))


async def test_a_wrong_line_is_told_with_its_number_and_nothing_else_comes(s3: S3Server, tmp_path: Path) -> None:
    bucket = await _bucket(s3, b"d00/\nd01//f0001\n")
    async with fetcher_process(tmp_path / "cache") as fetcher:
        await _warm(fetcher, s3, bucket)
        error = (await fetcher.reach(lambda s: s.phase is NodePhase.FAILED)).error
    assert error is not None
    assert (error.reason, error.temporary) == (Reason.WARM_LIST_INVALID, False)
    assert f"warm.list '{LIST}': line 2 of the list: the path 'd01//f0001'" in error.message
    assert [path.rpartition(bucket)[2].lstrip("/") for path in s3.gets(bucket)] == [LIST]
