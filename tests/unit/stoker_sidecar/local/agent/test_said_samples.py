"""A --sampling without matching files in the version is rejected with a message before the mount."""

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker_sidecar.errors import FetcherUnavailable, MountRefused
from stoker_sidecar.local.agent.said_samples import SamplesCheck
from stoker_sidecar.local.reports.report import for_workstation
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Failed, Read, ReadDone, Reply
from tests.support.cases import cases
from tests.support.version_readers import InProcessReader
from tests.support.versions import VersionFolder

VERSION = ("source", "a" * 64)
FILES = {
    "train/cat/0.jpg": b"0",
    "train/dog/1.jpg": b"1",
    "shards/00.tar": b"00",
    "shards/01.tar": b"01",
    "all.txt": b"train/cat/0.jpg\ntrain/dog/1.jpg\n",
    "gone.txt": b"train/cat/0.jpg\ntrain/cat/9.jpg\n",
    "sizes.txt": b"shards/00.tar 3\nshards/01.tar 4\n",
    "half.txt": b"shards/00.tar 3\n",
}
LIST = {"layout": "FileList", "path": "all.txt"}
LIST_OF_WHAT_IS_GONE = {"layout": "FileList", "path": "gone.txt"}


@dataclass
class Fetcher:
    """Downloads a requested file. Its first answers are ``first``."""

    version: VersionFolder
    first: list[Reply | Exception] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def ask(self, request: Read) -> Reply:
        path = next(path for path in FILES if self.version.ino(path) == request.ino)
        self.asked.append(path)
        if self.first:
            answer = self.first.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        self.version.finish(path)
        return ReadDone("tree", str(self.version.folder / "tree" / path))


@pytest.fixture
def fetcher(tmp_path: Path) -> Fetcher:
    return Fetcher(VersionFolder(tmp_path / "datasets" / VERSION[0] / "versions" / VERSION[1], FILES))


async def check(fetcher: Fetcher, files: Mapping[str, object]) -> None:
    folders = CacheFolders([fetcher.version.folder.parents[3]])
    samples = SamplesCheck(json.dumps({"files": files}), folders, InProcessReader(), fetcher.ask, Changes())
    await samples.refuse_what_is_not_there(VERSION, "s3://data/set")


@cases(
    "files, sentence",
    ({"path": "trian"}, "no sample is found at 'trian' (ImageFolder); correct"),
    ({"layout": "Shards", "path": "shard/*.tar"}, "no sample is found at 'shard/*.tar' (Shards)"),
    ({"layout": "Records", "path": "a.bin", "recordBytes": 4}, "the source has no file 'a.bin'"),
    ({"layout": "FileList", "path": "al.txt"}, "the source has no file 'al.txt', which should list the samples"),
    ({"layout": "Shards", "index": "size.txt"}, "the source has no file 'size.txt'"),
    (LIST_OF_WHAT_IS_GONE, "the list 'gone.txt' names 'train/cat/9.jpg', which the source does not have"),
    ({"layout": "Shards", "path": "shards/*.tar", "index": "half.txt"}, "many samples 'shards/01.tar' has"),
)
async def test_what_names_nothing_is_refused_with_what_to_do(
    fetcher: Fetcher, files: Mapping[str, object], sentence: str
) -> None:
    with pytest.raises(MountRefused) as refused:
        await check(fetcher, files)
    said = for_workstation(refused.value.message)
    assert said.startswith("--sampling does not fit s3://data/set: ")
    assert sentence in said
    assert said.endswith("correct its files (paths are below that URL), or mount without --sampling")


@pytest.mark.parametrize("files", [{"path": "train"}, {"layout": "Shards", "path": "shards/*.tar"}])
async def test_what_is_there_is_mounted_and_nothing_fetched_for_it(
    fetcher: Fetcher, files: Mapping[str, object]
) -> None:
    await check(fetcher, files)
    assert fetcher.asked == []


async def test_a_list_that_is_not_here_is_fetched_and_no_other_file(fetcher: Fetcher) -> None:
    await check(fetcher, LIST)
    assert fetcher.asked == ["all.txt"]


async def test_a_list_that_is_here_is_not_asked_for(fetcher: Fetcher) -> None:
    fetcher.version.finish("all.txt")
    await check(fetcher, LIST)
    assert fetcher.asked == []


@pytest.mark.parametrize("first", [FetcherUnavailable("it is being started"), Failed(errno.EAGAIN, "ask again")])
async def test_a_fetcher_that_is_just_starting_is_asked_again(fetcher: Fetcher, first: Reply | Exception) -> None:
    fetcher.first = [first]
    with pytest.raises(MountRefused):
        await check(fetcher, LIST_OF_WHAT_IS_GONE)
    assert fetcher.asked == ["gone.txt", "gone.txt"]


@pytest.mark.expected_logs("the list of --sampling cannot be read: access denied")
async def test_a_list_that_cannot_be_read_keeps_nobody_from_mounting(fetcher: Fetcher) -> None:
    fetcher.first = [Failed(errno.EIO, "access denied")]
    await check(fetcher, LIST_OF_WHAT_IS_GONE)
    assert fetcher.asked == ["gone.txt"]


@pytest.mark.expected_logs("it is not known yet whether --sampling fits")
async def test_a_list_that_does_not_come_in_time_keeps_nobody_from_mounting(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_sidecar.local.agent.said_samples._SECONDS", 0.05)
    fetcher.first = [Failed(errno.EAGAIN, "ask again")] * 1000
    await check(fetcher, LIST_OF_WHAT_IS_GONE)


async def test_a_version_that_is_not_here_is_left_to_who_mounts_it(tmp_path: Path, fetcher: Fetcher) -> None:
    fetcher.version.manifest.unlink()
    await check(fetcher, {"path": "trian"})
