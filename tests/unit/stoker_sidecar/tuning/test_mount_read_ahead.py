"""FUSE mounts use the read-ahead of their versions' rules, and the default once the rules are gone."""

from pathlib import Path

import pytest

from stoker_sidecar.linux.mounts.fuse_device import READ_AHEAD
from stoker_sidecar.tuning.mount_read_ahead import MountReadAhead
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.tuning.tuner import TuningInForce

VERSION, OTHER = ("uid", "d1"), ("uid", "d2")


class Mounts:
    """Mounts with their read-ahead, and the number of writes."""

    def __init__(self) -> None:
        self.served = {VERSION, OTHER}
        self.in_force: dict[tuple[str, str], TuningInForce] = {}
        self.there = {"d1", "d2"}
        self.sizes: dict[str, int] = {}
        self.writes = 0
        self.fault: OSError | None = None
        self.subject = MountReadAhead(Path("/mnt"), lambda: self.served, self.in_force, (), self.write)

    def write(self, mountpoint: Path, size: int) -> bool:
        self.writes += 1
        if self.fault is not None:
            raise self.fault
        if mountpoint.name in self.there:
            self.sizes[mountpoint.name] = size
        return mountpoint.name in self.there

    def say(self, size: int | None) -> None:
        self.in_force[VERSION] = TuningInForce(TuningChoice(), read_ahead=size)


async def test_what_rules_say_of_a_version_is_set_for_its_mount_and_taken_back() -> None:
    mounts, seen = Mounts(), []
    for size in (None, 2**20, None):
        mounts.say(size)
        await mounts.subject.look()
        seen.append((mounts.sizes["d1"], mounts.sizes["d2"]))
    assert seen == [(READ_AHEAD, READ_AHEAD), (2**20, READ_AHEAD), (READ_AHEAD, READ_AHEAD)]


async def test_what_is_set_is_not_set_again() -> None:
    mounts = Mounts()
    for _ in range(3):
        await mounts.subject.look()
    assert mounts.writes == 2


async def test_a_mount_that_is_not_there_yet_is_set_when_it_is() -> None:
    mounts = Mounts()
    mounts.there = set()
    mounts.say(2**20)
    looked = [await mounts.subject.look()]
    mounts.there = {"d1", "d2"}
    looked.append(await mounts.subject.look())
    assert (looked, mounts.sizes["d1"]) == ([False, True], 2**20)  # after False it checks again without news


async def test_a_mount_that_was_made_anew_is_set_anew() -> None:
    mounts = Mounts()
    mounts.say(2**20)
    for mounts.served in ({VERSION}, set(), {VERSION}):
        mounts.sizes.clear()
        await mounts.subject.look()
    assert mounts.sizes == {"d1": 2**20}


@pytest.mark.expected_logs("stays unchanged")
async def test_where_nothing_can_be_written_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    mounts = Mounts()
    mounts.fault = OSError(30, "Read-only file system")
    for size in (None, 2**20, 2**21):
        mounts.say(size)
        await mounts.subject.look()
    assert len(caplog.records) == 1
