"""Worker processes that are killed, stopped or cannot start, under the fetcher and a real S3 server."""

import asyncio
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stoker_api.nodecache import NodePhase
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_protocol import Configure, Done, Read, ReadDone
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.processes import is_running
from tests.support.s3 import CREDENTIALS, S3Server, running_s3
from tests.support.storm import kind_of
from tests.support.waiting import eventually

UID = "uid-1"
FILES = {f"d{index % 10}/f{index:04}": b"%d " % index * 2000 for index in range(1500)}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


async def _fill(s3: S3Server, bucket: str) -> None:
    async with s3.client() as client:
        await client.create_bucket(Bucket=bucket)
        paths = iter(FILES.items())

        async def put_some() -> None:
            for path, data in paths:
                await client.put_object(Bucket=bucket, Key=path, Body=data)

        await asyncio.gather(*(put_some() for _ in range(10)))


def _workers(fetcher: FetcherProcess) -> list[int]:
    pid = fetcher.process.pid
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if kind_of(child) == "stoker-worker"]


async def _configure(fetcher: FetcherProcess, s3: S3Server, **wish: Any) -> None:
    source = {"uri": "s3://bucket", "endpoint": s3.endpoint}
    dataset = {"namespace": "n", "name": "set", "uid": UID, "source": source, "listingId": "1"} | wish
    assert await fetcher.ask(Configure(dataset, CREDENTIALS)) == Done()


async def _read_all(fetcher: FetcherProcess, manifest: Path, digest: str, failed: list[Any]) -> None:
    opened = Manifest.open(manifest)
    wanted = {opened.path(entry.ino): entry.ino for entry in opened.files()}
    opened.close()
    for path in sorted(wanted, reverse=True):  # from the other end than warm-up
        reply = await fetcher.ask(Read(UID, digest, wanted[path], 0, len(FILES[path])))
        if not (isinstance(reply, ReadDone) and _content(reply) == FILES[path]):
            failed.append((path, reply))


async def test_killed_workers_cost_readers_no_error_and_no_finished_file_is_fetched_again(
    s3: S3Server, tmp_path: Path
) -> None:
    await _fill(s3, "bucket")
    async with fetcher_process(tmp_path / "cache") as fetcher:
        await _configure(fetcher, s3)
        listing = (await fetcher.reach(lambda status: status.listing is not None)).listing
        assert listing is not None
        folder = tmp_path / "cache" / "datasets" / UID / "versions" / listing.version
        await _configure(fetcher, s3, version=listing.version, eager=True)
        failed: list[Any] = []
        reading = asyncio.create_task(_read_all(fetcher, folder / "manifest.sqlite", listing.version, failed))
        finished: set[str] = set()
        asked = 0
        for share in (0.1, 0.3, 0.5):
            await eventually(partial(_has_more_than, folder / "tree", share * len(FILES)), 60.0)
            finished, asked = _names(folder / "tree"), len(s3.gets("bucket"))
            killed = _workers(fetcher)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            await eventually(partial(_has_others_than, fetcher, killed), 60.0)
        await fetcher.reach(lambda status: status.phase is NodePhase.WARM)
        await reading
    assert failed == []
    assert {path: (folder / "tree" / path).read_bytes() for path in FILES} == FILES
    assert finished.isdisjoint(s3.gets("bucket")[asked:])
    assert list((folder / "parts").iterdir()) == []


async def test_workers_end_with_a_killed_fetcher(tmp_path: Path) -> None:
    async with fetcher_process(tmp_path / "cache") as fetcher:
        workers = _workers(fetcher)
        assert workers
        await fetcher.kill()
        await eventually(lambda: not any(map(is_running, workers)))


def _content(reply: ReadDone) -> bytes:
    return Path(reply.file).read_bytes()


def _names(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.glob("*/*")}


def _has_more_than(tree: Path, count: float) -> bool:
    return len(_names(tree)) > count


def _has_others_than(fetcher: FetcherProcess, killed: list[int]) -> bool:
    return len(set(_workers(fetcher)) - set(killed)) == len(killed)
