"""Real readers meet files that are made to take memory and time, almost without effect on the agent's process."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from stoker_orders.job_order import MOST_SAMPLES
from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sampling_plan import SampleFiles, SampleLayout
from stoker_sidecar.agent.questions.reading import version_reader
from stoker_sidecar.agent.questions.reading.read_failures import ReadFailures
from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.wire.reader_protocol import MOST_INDEX
from tests.fakes.volumes import UID
from tests.support.csi_driver import write_version
from tests.support.processes import is_running
from tests.support.version_readers import process_reader
from tests.support.waiting import eventually

MIB = 1024**2
Pids = Callable[[], list[int]]
INDEX = SampleFiles(SampleLayout.SHARDS, index="index")
LIST = SampleFiles(SampleLayout.FILE_LIST, "index")
_DISTINCT = b"".join(b"%x\n" % number for number in range(1_400_000))[:MOST_INDEX]
BOMBS = {
    "objects": (INDEX, '{"😀":['.encode() + b"{}," * (MOST_INDEX // 3 - 8) + b"0]}"),
    "lists": (INDEX, b'{"a":[' + b"[]," * (MOST_INDEX // 3 - 4) + b"0]}"),
    "names": (INDEX, (b"{" + b",".join(b'"%x":1' % number for number in range(850_000)))[: MOST_INDEX - 1] + b"}"),
    "lines": (LIST, b"ab\n" * (MOST_INDEX // 3)),
    "distinct lines": (LIST, _DISTINCT),
    "larger than any index": (INDEX, b"a 1\n" * (MOST_INDEX // 4 + 1)),
}


class LoopWatch:
    """The time in which its own process's work blocked an event loop, in seconds of CPU."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def run(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0.005)
            self.worst = max(self.worst, time.process_time() - before)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def version(folder: Path, index: bytes = b"", **files: bytes) -> VersionPaths:
    info = write_version(folder, {"a.tar": b"x" * 10, "index": index, **files})
    return CachePaths(folder).dataset(UID).version(info.digest)


def plenty() -> int:
    return MOST_SAMPLES


@asynccontextmanager
async def readers(
    folder: Path, failures: Path | None = None
) -> AsyncIterator[tuple[VersionReader, Callable[[], list[int]]]]:
    async with process_reader(folder / "reader.sock") as pids:
        yield VersionReader(folder / "reader.sock", ReadFailures(failures)), pids


@pytest.mark.parametrize("kind", BOMBS)
async def test_a_bomb_is_refused_and_the_agent_neither_grows_nor_stands_still(tmp_path: Path, kind: str) -> None:
    files, index = BOMBS[kind]
    paths, before = version(tmp_path / "cache", index), resident()
    blocked = list[float]()
    while len(blocked) < 3 and min(blocked, default=1.0) >= 0.1:  # other processes share the CPU's caches
        watch = LoopWatch()
        async with readers(tmp_path) as (reader, _):  # a new one, which remembers no failure
            watching = asyncio.create_task(watch.run())
            with pytest.raises(NoSamplesError):
                await reader.samples("bombs", paths, files, plenty)
            watching.cancel()
        blocked.append(watch.worst)
    assert resident() - before < 50 * MIB
    assert min(blocked) < 0.1


async def test_the_samples_of_a_large_index_come_as_arrays(tmp_path: Path) -> None:
    records = b"".join(b"%d\n" % number for number in range(1_100_000))
    paths = version(tmp_path / "cache", records, **{"r.bin": b"x" * 1_100_000})
    files = SampleFiles(SampleLayout.RECORDS, "r.bin", index="index")
    before = resident()
    async with readers(tmp_path) as (reader, _):
        samples = await reader.samples("canary", paths, files, plenty)
    assert not isinstance(samples, version_reader.ListNeeded)
    assert len(samples) == 1_100_000
    assert samples.piece(1_099_999)[1:] == (1_099_999, 1)
    assert resident() - before < 50 * MIB  # 16 bytes per record


async def test_ten_bombs_of_a_namespace_delay_nobody_elses_files(tmp_path: Path) -> None:
    files, index = BOMBS["names"]
    bomb, own = version(tmp_path / "bombs", index), version(tmp_path / "canary", b"a.tar 3\n")
    async with readers(tmp_path) as (reader, _):
        # Of ten pods, each with a different pattern, so all requests differ.
        each = [replace(files, path=f"*{number}") for number in range(10)]
        bombs = [asyncio.create_task(reader.samples("bombs", bomb, one, plenty)) for one in each]
        await asyncio.sleep(0)
        samples = await reader.samples("canary", own, files, plenty)
        assert not isinstance(samples, version_reader.ListNeeded)
        assert len(samples) == 3
        assert sum(one.done() for one in bombs) <= 1
        for one in bombs:
            one.cancel()
        await asyncio.gather(*bombs, return_exceptions=True)


async def test_what_takes_more_memory_than_a_reader_has_is_not_asked_again_by_the_next_agent_either(
    tmp_path: Path,
) -> None:
    # Five million names, in 43 of the 64 MiB of a list's limit: Python's objects of them take more than 450 MB.
    paths = version(tmp_path / "cache", random.Random(1).randbytes(20_000_000).hex("\n", 4).encode())
    async with readers(tmp_path, tmp_path / "failures.json") as (reader, pids):
        with pytest.raises(NoSamplesError, match="takes more than"):
            await reader.samples("bombs", paths, LIST, plenty)
        next_reader = VersionReader(tmp_path / "reader.sock", ReadFailures(tmp_path / "failures.json"))
        with pytest.raises(NoSamplesError, match="takes more than"):
            await next_reader.samples("bombs", paths, LIST, plenty)
        assert len(pids()) == 1


@pytest.mark.expected_logs("files of .* are not read: the reader ended")
async def test_a_question_whose_reader_is_killed_each_time_is_not_asked_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_reader, "_TRY_SECONDS", 0.0)
    files, index = BOMBS["names"]
    paths = version(tmp_path / "cache", index)
    async with readers(tmp_path) as (reader, pids):
        asking = asyncio.create_task(reader.samples("bombs", paths, files, plenty))
        for number in range(3):
            await eventually(partial(_has_more, pids, number), 30)
            os.kill(pids()[number], 9)
        with pytest.raises(NoSamplesError, match="was ended 3 times"):
            await asking
        with pytest.raises(NoSamplesError, match="was ended 3 times"):
            await reader.samples("bombs", paths, files, plenty)
        assert len(pids()) == 3


async def test_a_reader_whose_agent_is_gone_ends(tmp_path: Path) -> None:
    files, index = BOMBS["names"]
    paths = version(tmp_path / "cache", index)
    async with readers(tmp_path) as (reader, pids):
        asking = asyncio.create_task(reader.samples("bombs", paths, files, plenty))
        await eventually(lambda: bool(pids()), 30)
        await eventually(lambda: _is_limited(pids()[0]), 30)
        asking.cancel()
        await eventually(lambda: not is_running(pids()[0]), 1)


def _has_more(pids: Pids, number: int) -> bool:
    return len(pids()) > number


def _is_limited(pid: int) -> bool:
    """Return True if it has started to read."""
    line = next(line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max core"))
    return line.split()[-2] == "0"
