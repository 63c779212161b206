"""The fetcher process against a real S3 server: warm, kill, restart, change, quota, refusals."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stoker_api.names import Reason
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.credentials import Credentials, StaticCredentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Done, Failed, Read, ReadDone, Remove
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.s3 import CREDENTIALS, S3Server, running_s3
from tests.support.waiting import eventually

FILES = {f"d{index % 20:02}/f{index:04}": b"%d " % index * (index % 50) for index in range(2000)}
UID = "uid-1"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


async def _bucket(s3: S3Server, content: dict[str, bytes]) -> str:
    name = f"bucket-{uuid4().hex[:10]}"
    async with s3.client() as client:
        await client.create_bucket(Bucket=name)
        for batch in range(0, len(content), 10):  # ten at a time: as many connections as the client keeps
            some = list(content.items())[batch : batch + 10]
            await asyncio.gather(*(client.put_object(Bucket=name, Key=path, Body=data) for path, data in some))
    return name


@pytest.fixture
async def fetcher(tmp_path: Path) -> AsyncIterator[FetcherProcess]:
    async with fetcher_process(tmp_path / "cache") as running:
        yield running


def _dataset(s3: S3Server, bucket: str, **changes: Any) -> dict[str, Any]:
    source = {"uri": f"s3://{bucket}", "endpoint": s3.endpoint}
    return {"namespace": "n", "name": "set", "uid": UID, "source": source, "listingId": "1"} | changes


async def _configure(fetcher: FetcherProcess, dataset: dict[str, Any], credentials: Credentials = CREDENTIALS) -> None:
    assert await fetcher.ask(Configure(dataset, credentials)) == Done()


async def _list(fetcher: FetcherProcess, dataset: dict[str, Any]) -> str:
    await _configure(fetcher, dataset)
    status = await fetcher.reach(lambda s: s.listing is not None)
    assert status.listing is not None
    assert status.listing.error is None
    return status.listing.version


def _tree(root: Path, digest: str) -> dict[str, bytes]:
    tree = root / "datasets" / UID / "versions" / digest / "tree"
    return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def _ino(root: Path, digest: str, path: str) -> int:
    manifest = Manifest.open(root / "datasets" / UID / "versions" / digest / "manifest.sqlite")
    entry = manifest.find(path)
    manifest.close()
    assert entry is not None
    return entry.ino


async def test_killed_in_the_middle_it_goes_on_and_fetches_no_finished_file_again(s3: S3Server, tmp_path: Path) -> None:
    root, bucket = tmp_path / "cache", await _bucket(s3, FILES)
    async with fetcher_process(root) as fetcher:
        digest = await _list(fetcher, _dataset(s3, bucket))
        await _configure(fetcher, _dataset(s3, bucket, version=digest, eager=True))
        # Looked at on the disk, since progress is told once a second only.
        await eventually(lambda: len(_tree(root, digest)) > 200, 60.0)
        await fetcher.kill()
    finished, asked_before = set(_tree(root, digest)), len(s3.gets(bucket))
    assert len(finished) < len(FILES)
    async with fetcher_process(root) as fetcher:
        await _configure(fetcher, _dataset(s3, bucket, version=digest, eager=True))
        await fetcher.reach(lambda s: s.phase is NodePhase.WARM)
    assert _tree(root, digest) == FILES
    assert finished.isdisjoint(s3.gets(bucket)[asked_before:])


async def test_after_a_kill_it_brings_missing_bytes_before_anyone_has_told_it_of_the_dataset(
    s3: S3Server, tmp_path: Path
) -> None:
    root, bucket = tmp_path / "cache", await _bucket(s3, {"a": b"x"})
    with os.fdopen(os.memfd_create("told")) as memory:
        async with fetcher_process(root, memory=memory.fileno()) as fetcher:
            digest = await _list(fetcher, _dataset(s3, bucket))
            await _configure(fetcher, _dataset(s3, bucket, version=digest))
            await fetcher.kill()
        async with fetcher_process(root, memory=memory.fileno()) as fetcher:
            assert isinstance(await fetcher.ask(Read(UID, digest, _ino(root, digest, "a"), 0, 1)), ReadDone)


async def test_warm_up_asks_for_each_object_once(s3: S3Server, fetcher: FetcherProcess, tmp_path: Path) -> None:
    content = {path: data for path, data in FILES.items() if path < "d04"}
    bucket = await _bucket(s3, content)
    digest = await _list(fetcher, _dataset(s3, bucket))
    await _configure(fetcher, _dataset(s3, bucket, version=digest, eager=True))
    await fetcher.reach(lambda s: s.phase is NodePhase.WARM)
    assert sorted(s3.gets(bucket)) == sorted(path for path, data in content.items() if data)
    assert _tree(tmp_path / "cache", digest) == content


async def test_a_changed_object_is_refused_and_never_mixed(
    s3: S3Server, fetcher: FetcherProcess, tmp_path: Path
) -> None:
    large = b"0123456789abcdef" * (CHUNK // 16) * 3
    bucket, root = await _bucket(s3, {"large": large}), tmp_path / "cache"
    digest = await _list(fetcher, _dataset(s3, bucket))
    await _configure(fetcher, _dataset(s3, bucket, version=digest))
    ino = _ino(root, digest, "large")
    first = await fetcher.ask(Read(UID, digest, ino, 0, 10))
    await eventually(lambda: len(s3.gets(bucket)) == 2)  # the chunk that was asked for, and the next
    async with s3.client() as client:
        await client.put_object(Bucket=bucket, Key="large", Body=large[::-1])
    refused = await fetcher.ask(Read(UID, digest, ino, 2 * CHUNK, 10))
    assert isinstance(refused, Failed)
    assert (refused.errno, refused.reason) == (errno.ESTALE, Reason.SOURCE_CHANGED)
    assert isinstance(first, ReadDone)
    file = root / "datasets" / UID / "versions" / digest / first.file
    assert file.read_bytes()[:10] == large[:10]


async def test_a_quota_keeps_what_fits_and_serves_the_rest(
    s3: S3Server, fetcher: FetcherProcess, tmp_path: Path
) -> None:
    content = {f"f{index:02}": bytes([index]) * 1000 for index in range(20)}
    bucket, root = await _bucket(s3, content), tmp_path / "cache"
    digest = await _list(fetcher, _dataset(s3, bucket))
    await _configure(fetcher, _dataset(s3, bucket, version=digest, eager=True, quotaBytes=5500))
    status = await fetcher.reach(lambda s: s.phase is NodePhase.FULL)
    assert (status.warm_files, status.warm_bytes) == (5, 5000)
    for path, data in content.items():
        answer = await fetcher.ask(Read(UID, digest, _ino(root, digest, path), 0, 1000))
        assert isinstance(answer, ReadDone)
        assert (root / "datasets" / UID / "versions" / digest / answer.file).read_bytes() == data


async def _listing_error(fetcher: FetcherProcess, dataset: dict[str, Any], credentials: Credentials) -> tuple[str, str]:
    await _configure(fetcher, dataset, credentials)

    def failed(status: NodeDatasetStatus) -> bool:
        return status.listing is not None and status.listing.error is not None

    listing = (await fetcher.reach(failed)).listing
    assert listing is not None
    assert listing.error is not None
    return listing.error.reason, listing.error.message


async def test_a_cold_version_of_a_versioned_bucket_is_fetched_although_the_objects_were_replaced(
    fetcher: FetcherProcess, tmp_path: Path
) -> None:
    old = {"a": b"old" * 1000, "b/large": os.urandom(CHUNK + 100), "gone": b"deleted since"}
    with running_s3(tmp_path, versions=True) as server:
        bucket = await _bucket(server, {})
        async with server.client() as client:
            await client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
            for path, data in old.items():
                await client.put_object(Bucket=bucket, Key=path, Body=data)
            digest = await _list(fetcher, _dataset(server, bucket))
            for path, data in old.items():
                await client.put_object(Bucket=bucket, Key=path, Body=data[::-1])
            await client.delete_object(Bucket=bucket, Key="gone")
        await _configure(fetcher, _dataset(server, bucket, version=digest, eager=True))
        await fetcher.reach(lambda s: s.phase is NodePhase.WARM)
    assert _tree(tmp_path / "cache", digest) == old


async def test_wrong_credentials_are_told_and_right_ones_heal(s3: S3Server, fetcher: FetcherProcess) -> None:
    bucket = await _bucket(s3, {"a": b"x"})
    wrong = StaticCredentials(CREDENTIALS.access_key_id, "wrong")
    reason, message = await _listing_error(fetcher, _dataset(s3, bucket), wrong)
    assert reason == Reason.INVALID_CREDENTIALS
    assert "AWS_SECRET_ACCESS_KEY" in message
    await _configure(fetcher, _dataset(s3, bucket))
    await fetcher.reach(lambda s: s.listing is not None and s.listing.error is None)


async def test_a_bucket_that_is_not_there_is_told(s3: S3Server, fetcher: FetcherProcess) -> None:
    reason, message = await _listing_error(fetcher, _dataset(s3, "no-such-bucket"), CREDENTIALS)
    assert reason == Reason.BUCKET_NOT_FOUND
    assert "no-such-bucket" in message


async def test_removing_cleans_the_disk(s3: S3Server, fetcher: FetcherProcess, tmp_path: Path) -> None:
    bucket = await _bucket(s3, {"a": b"x"})
    await _list(fetcher, _dataset(s3, bucket))
    assert await fetcher.ask(Remove(UID)) == Done()
    await eventually(lambda: _names_beneath(tmp_path / "cache") == {"boot", "datasets", "trash"})


def _names_beneath(folder: Path) -> set[str]:
    """Return the names of all that lies there while the fetcher deletes: os.walk passes over what is gone."""
    return {name for _, folders, files in os.walk(folder) for name in (*folders, *files)}


async def test_a_line_that_is_no_request_ends_only_its_connection(fetcher: FetcherProcess, tmp_path: Path) -> None:
    reader, writer = await asyncio.open_unix_connection(tmp_path / "fetcher.sock")
    writer.write(b"rubbish\n")
    assert await reader.read() == b""
    writer.close()
    assert isinstance(await fetcher.ask(Remove("uid-unknown")), Done)


@pytest.mark.parametrize("folder", ["/etc", "/proc/self/fd", "{cache}"])
async def test_a_folder_that_nobody_allowed_is_not_listed(fetcher: FetcherProcess, tmp_path: Path, folder: str) -> None:
    uri = "file://" + folder.format(cache=tmp_path / "cache")
    await _configure(fetcher, {"namespace": "n", "name": "loot", "uid": UID, "source": {"uri": uri}, "listingId": "1"})
    status = await fetcher.reach(lambda s: s.listing is not None)
    assert status.listing is not None
    assert status.listing.error is not None
    assert status.listing.error.reason == Reason.ACCESS_DENIED
    assert "sidecar.hostFolders" in status.listing.error.message


async def test_a_folder_that_the_environment_allows_is_warmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nfs" / "set").mkdir(parents=True)
    (tmp_path / "nfs" / "set" / "a").write_bytes(b"content")
    monkeypatch.setenv("STOKER_HOST_FOLDERS", f"/none,{tmp_path}/nfs")
    source = {"uri": f"file://{tmp_path}/nfs/set"}
    row: dict[str, Any] = {"namespace": "n", "name": "set", "uid": UID, "source": source, "listingId": "1"}
    async with fetcher_process(tmp_path / "cache") as fetcher:
        digest = await _list(fetcher, row)
        await _configure(fetcher, row | {"version": digest, "eager": True})
        await fetcher.reach(lambda status: status.phase is NodePhase.WARM)
