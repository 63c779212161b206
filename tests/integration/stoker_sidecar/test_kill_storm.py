"""kill -9 of every process but the keeper, repeatedly and all at once, under readers that check every byte."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.local.mounts.mounted import all_mounted
from tests.support.readers import VerifyingReaders
from tests.support.s3 import running_s3
from tests.support.stoker_mount import StokerMount
from tests.support.storm import Storm, kind_of
from tests.support.versions import small_files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
_KILLS = 24
# Seconds of one read. On two quiet cores it is 0.5, or 3 when all are killed together (11 at a load of 20). A hang
# takes 30.
_LONGEST = 20.0
_STOPS = 4
# Seconds without a heartbeat until a FUSE server is killed. A fetcher and a worker have 30. On quiet cores a stop takes
# 0.3.
_SHORTEST_SILENCE = 5.0
FILES = small_files(40)
# A third of the bytes, so that there are always reads of cached and of missing bytes.
QUOTA = str(sum(map(len, FILES.values())) // 3)


@pytest.fixture
def stoker(tmp_path: Path) -> Iterator[StokerMount]:
    with running_s3(tmp_path) as server:
        asyncio.run(server.bucket({f"set/{path}": body for path, body in FILES.items()}, "data"))
        with StokerMount(server) as made:
            yield made


def test_no_read_fails_in_a_storm_of_kills(stoker: StokerMount) -> None:
    stoker.mount("--quota", QUOTA)
    (keeper,) = {one.pid() for one in all_mounted(stoker.runs)}
    storm = Storm(lambda: [pid for pid in stoker.processes() if pid != keeper])
    with VerifyingReaders(stoker.data, FILES) as readers:
        for _ in range(_KILLS):
            before = readers.reads
            storm.strike()
            readers.wait_for(8, since=before)
    assert readers.wrong == []
    assert readers.longest < _LONGEST
    assert len(storm.killed) >= 5, storm.killed
    stoker.umount()
    assert not stoker.leftovers()


@pytest.mark.parametrize("kind", ["stoker-fs", "stoker-fetcher", "stoker-worker", "stoker-zygote"])
def test_a_process_that_is_stopped_is_replaced_before_its_silence_is_noticed(stoker: StokerMount, kind: str) -> None:
    stoker.mount("--quota", QUOTA)
    with VerifyingReaders(stoker.data, FILES) as readers:
        for _ in range(_STOPS):
            before = readers.reads
            os.kill(_some_pid(stoker, kind), signal.SIGSTOP)
            readers.wait_for(8, since=before)
    assert readers.wrong == []
    assert readers.longest < _SHORTEST_SILENCE


def test_missing_bytes_are_read_from_a_new_fetcher_while_the_agent_is_gone(stoker: StokerMount) -> None:
    """Its successor needs a second of imports. A fetcher without state would keep readers waiting for that time."""
    stoker.mount("--quota", QUOTA)
    (agent,) = _pids(stoker, "stoker_sidecar.local.agent.mount_agent")
    (fetcher,) = _pids(stoker, "stoker-fetcher")
    for pid in (agent, fetcher):
        os.kill(pid, signal.SIGKILL)
    assert {path: (stoker.data / path).read_bytes() for path in FILES} == FILES
    assert fetcher not in _pids(stoker, "stoker-fetcher")


def _some_pid(stoker: StokerMount, kind: str) -> int:
    """Return a running one. Readers of cached files may be faster than the replacement of the last one."""
    found: list[int] = []

    def look() -> bool:
        found.extend(_pids(stoker, kind))
        return bool(found)

    wait_until(look)
    return found[0]


def _pids(stoker: StokerMount, kind: str) -> list[int]:
    return [pid for pid in stoker.processes() if kind_of(pid) == kind]
