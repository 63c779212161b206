"""The fetcher process against a real S3 server: warm, kill, restart, change, quota, refusals."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.wire.credentials import StaticCredentials
from stoker_sidecar.wire.fetcher_protocol import Done, Failed, ReadDone, Remove
from tests.support.fetcher_node import UID, FetcherNode, fetcher_node
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.s3 import CREDENTIALS, S3Server, running_s3
from tests.support.waiting import eventually

FILES = {f"d{index % 20:02}/f{index:04}": b"%d " % index * (index % 50) for index in range(2000)}


@pytest.fixture
async def fetcher(tmp_path: Path) -> AsyncIterator[FetcherProcess]:
    async with fetcher_process(tmp_path / "cache") as running:
        yield running


@asynccontextmanager
async def node_of(s3: S3Server, folder: Path, content: Mapping[str, bytes]) -> AsyncIterator[tuple[FetcherNode, str]]:
    """Run a fetcher for a new bucket. Yields the node and the bucket."""
    bucket = await s3.bucket(content)
    async with fetcher_node(folder / "cache", s3.source(bucket)) as node:
        yield node, bucket


async def test_killed_in_the_middle_it_goes_on_and_fetches_no_finished_file_again(s3: S3Server, tmp_path: Path) -> None:
    async with node_of(s3, tmp_path, FILES) as (node, bucket):
        await node.warm()
        # Checked on the disk, because progress is reported only once a second.
        await eventually(lambda: len(node.paths()) > 200, 60.0)
        await node.process.kill()
    finished, asked_before = node.paths(), len(s3.gets(bucket))
    assert len(finished) < len(FILES)
    async with fetcher_node(node.root, s3.source(bucket)) as after:
        await after.warm()
        await after.reach(NodePhase.WARM)
        assert after.tree() == FILES
    assert finished.isdisjoint(s3.gets(bucket)[asked_before:])


async def test_after_a_kill_it_brings_missing_bytes_before_anyone_has_told_it_of_the_dataset(
    s3: S3Server, tmp_path: Path
) -> None:
    source = s3.source(await s3.bucket({"a": b"x"}))
    with os.fdopen(os.memfd_create("told")) as memory:
        async with fetcher_node(tmp_path / "cache", source, memory=memory.fileno()) as node:
            await node.mount()
            await node.process.kill()
        async with fetcher_process(tmp_path / "cache", memory=memory.fileno()) as node.process:
            assert isinstance(await node.read("a", 0, 1), ReadDone)


async def test_warm_up_asks_for_each_object_once(s3: S3Server, tmp_path: Path) -> None:
    content = {path: data for path, data in FILES.items() if path < "d04"}
    async with node_of(s3, tmp_path, content) as (node, bucket):
        await node.warm()
        await node.reach(NodePhase.WARM)
        assert sorted(s3.gets(bucket)) == sorted(path for path, data in content.items() if data)
        assert node.tree() == content


async def test_a_changed_object_is_refused_and_never_mixed(s3: S3Server, tmp_path: Path) -> None:
    large = b"0123456789abcdef" * (CHUNK // 16) * 3
    async with node_of(s3, tmp_path, {"large": large}) as (node, bucket):
        await node.mount()
        first = await node.read("large", 0, 10)
        await eventually(lambda: len(s3.gets(bucket)) == 2)  # the requested chunk, and the next
        async with s3.client() as client:
            await client.put_object(Bucket=bucket, Key="large", Body=large[::-1])
        refused = await node.read("large", 2 * CHUNK, 10)
        assert isinstance(refused, Failed)
        assert (refused.errno, refused.reason) == (errno.ESTALE, Reason.SOURCE_CHANGED)
        assert node.content(first)[:10] == large[:10]


async def test_a_quota_keeps_what_fits_and_serves_the_rest(s3: S3Server, tmp_path: Path) -> None:
    content = {f"f{index:02}": bytes([index]) * 1000 for index in range(20)}
    async with node_of(s3, tmp_path, content) as (node, _):
        await node.warm(quotaBytes=5500)
        status = await node.reach(NodePhase.FULL)
        assert (status.warm_files, status.warm_bytes) == (5, 5000)
        for path, data in content.items():
            assert node.content(await node.read(path, 0, 1000)) == data


async def test_a_cold_version_of_a_versioned_bucket_is_fetched_although_the_objects_were_replaced(
    tmp_path: Path,
) -> None:
    old = {"a": b"old" * 1000, "b/large": os.urandom(CHUNK + 100), "gone": b"deleted since"}
    with running_s3(tmp_path, versions=True) as server:
        async with node_of(server, tmp_path, {}) as (node, bucket), server.client() as client:
            await client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
            for path, data in old.items():
                await client.put_object(Bucket=bucket, Key=path, Body=data)
            await node.mount()
            for path, data in old.items():
                await client.put_object(Bucket=bucket, Key=path, Body=data[::-1])
            await client.delete_object(Bucket=bucket, Key="gone")
            await node.warm()
            await node.reach(NodePhase.WARM)
            assert node.tree() == old


def error_of(status: NodeDatasetStatus) -> tuple[str, str]:
    """Return reason and message of a listing that failed."""
    assert status.listing is not None
    assert status.listing.error is not None
    return status.listing.error.reason, status.listing.error.message


async def test_wrong_credentials_are_told_and_right_ones_heal(s3: S3Server, tmp_path: Path) -> None:
    async with node_of(s3, tmp_path, {"a": b"x"}) as (node, _):
        reason, message = error_of(await node.list_source(StaticCredentials(CREDENTIALS.access_key_id, "wrong")))
        assert reason == Reason.INVALID_CREDENTIALS
        assert "AWS_SECRET_ACCESS_KEY" in message
        await node.configure()
        await node.process.reach(lambda s: s.listing is not None and s.listing.error is None)


async def test_a_bucket_that_is_not_there_is_told(s3: S3Server, tmp_path: Path) -> None:
    async with fetcher_node(tmp_path / "cache", s3.source("no-such-bucket")) as node:
        reason, message = error_of(await node.list_source())
    assert reason == Reason.BUCKET_NOT_FOUND
    assert "no-such-bucket" in message


async def test_removing_cleans_the_disk(s3: S3Server, tmp_path: Path) -> None:
    async with node_of(s3, tmp_path, {"a": b"x"}) as (node, _):
        await node.list_source()
        assert await node.process.ask(Remove(UID)) == Done()
        await eventually(lambda: _names_beneath(node.root) == {"boot", "datasets", "trash"})


def _names_beneath(folder: Path) -> set[str]:
    """Return the names of all files there while the fetcher deletes: os.walk skips deleted ones."""
    return {name for _, folders, files in os.walk(folder) for name in (*folders, *files)}


async def test_a_line_that_is_no_request_ends_only_its_connection(fetcher: FetcherProcess, tmp_path: Path) -> None:
    reader, writer = await asyncio.open_unix_connection(tmp_path / "fetcher.sock")
    writer.write(b"rubbish\n")
    assert await reader.read() == b""
    writer.close()
    assert isinstance(await fetcher.ask(Remove("uid-unknown")), Done)


async def test_folders_that_nobody_allowed_are_not_listed(fetcher: FetcherProcess, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    for folder in ("/etc", "/proc/self/fd", root):
        node = FetcherNode(fetcher, root, {"uri": f"file://{folder}"})
        reason, message = error_of(await node.list_source())
        assert reason == Reason.ACCESS_DENIED
        assert "sidecar.hostFolders" in message
        assert await fetcher.ask(Remove(UID)) == Done()
        await eventually(lambda: not fetcher.progress.datasets)


async def test_a_folder_that_the_environment_allows_is_warmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nfs" / "set").mkdir(parents=True)
    (tmp_path / "nfs" / "set" / "a").write_bytes(b"content")
    monkeypatch.setenv("STOKER_HOST_FOLDERS", f"/none,{tmp_path}/nfs")
    async with fetcher_node(tmp_path / "cache", {"uri": f"file://{tmp_path}/nfs/set"}) as node:
        await node.warm()
        await node.reach(NodePhase.WARM)
