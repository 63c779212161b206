"""Files locked in memory: ranges, names by descriptors, and the limits of a process."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from stoker_sidecar.linux.kernel_caches import cached_bytes, drop_pages
from stoker_sidecar.linux.memory_locks import (
    LockedRange,
    grant_limits,
    hold_name,
    most_names,
    most_ranges,
    raise_limits,
    reclaim_text,
)

MIB = 2**20
SIZE = 16 * MIB


@pytest.fixture
def descriptor(tmp_path: Path) -> int:
    path = tmp_path / "file"
    path.write_bytes(b"x" * SIZE)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    return descriptor


def _stays(descriptor: int) -> int:
    drop_pages(descriptor)
    return cached_bytes(descriptor) or 0


def test_what_is_locked_stays_and_can_be_more_and_less(descriptor: int) -> None:
    one = LockedRange.map(descriptor, SIZE)
    found = []
    for length in (4 * MIB, SIZE, 6 * MIB - 1):
        one.resize(length)
        found.append(_stays(descriptor))
    one.release()
    assert (found[1], _stays(descriptor)) == (SIZE, 0)
    # The kernel keeps larger folios in full if a part is locked.
    assert 4 * MIB <= found[0] < 8 * MIB
    assert 6 * MIB - 1 <= found[2] < 10 * MIB


def test_a_name_is_held_without_a_right_to_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(mode=0)
    descriptor = hold_name(str(path))
    assert os.fstat(descriptor).st_ino == path.stat().st_ino
    os.close(descriptor)


def test_limits_are_never_lowered() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        before = [resource.prlimit(child.pid, limit)[1] for limit in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE)]
        grant_limits(child.pid)
        after = [resource.prlimit(child.pid, limit)[1] for limit in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE)]
        child.communicate(b"\n")
    unlimited = [2**63 if value == resource.RLIM_INFINITY else value for value in (*before, *after)]
    assert unlimited[2:] >= unlimited[:2]


def test_what_this_process_may_take_leaves_room_for_the_rest(tmp_path: Path) -> None:
    raise_limits()
    assert 0 <= most_names() < 2**40
    setting = tmp_path / "max_map_count"
    setting.write_text("65530\n")
    assert most_ranges(setting) == 65_530 - 16_384
    assert most_ranges(tmp_path / "none") == 65_530 - 16_384


def test_the_kernel_says_what_it_took_back() -> None:
    assert "pgsteal_file" in reclaim_text()
