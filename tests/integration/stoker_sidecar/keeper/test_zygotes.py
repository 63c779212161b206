"""A zygote and its forked process, as real processes of a program without imports. Either may be killed."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.zygotes import Zygote, ZygoteKind
from stoker_sidecar.linux.spawn import end
from tests.support.processes import adopting_orphans
from tests.support.waiting import eventually

_ZYGOTE = """
import signal
from stoker_sidecar.wire.zygote_orders import run_zygote
run_zygote(lambda arguments: signal.pause(), "stoker-forked", None)
"""
_SLOW = "import signal; signal.pause()"
KIND = ZygoteKind("zygote", (sys.executable, "-c", _SLOW), (sys.executable, "-c", _ZYGOTE), ready_within=10.0)


class ZygoteUser:
    """A zygote, and one process that it forks."""

    def __init__(self, kind: ZygoteKind = KIND) -> None:
        reaper = Reaper()
        reaper.install()
        self.zygote = Zygote(kind, reaper, None)
        start = self.zygote.start([], None, {})
        self.forked = Child("forked", reaper, lambda: start, spawn=self.zygote.spawn, until=self.zygote.until_ready)

    async def kill(self, *children: Child, by: signal.Signals = signal.SIGKILL) -> None:
        """Kill children. Return when others have replaced them."""
        before = [child.pid for child in children]
        for pid in before:
            end(pid, by)
        await eventually(lambda: all(child.pid not in (None, pid) for child, pid in zip(children, before, strict=True)))

    async def is_ready(self) -> None:
        await eventually(lambda: self.zygote.ready)

    async def descriptors(self) -> int:
        """Return the zygote's number of idle children: during a fork it has those of the new process, too."""
        looks = [0, -1]

        def is_at_rest() -> bool:
            looks.append(_descriptors(self.zygote.child.pid))
            return looks[-1] == looks[-2]

        await eventually(is_at_rest)
        return looks[-1]


@pytest.fixture
async def user() -> AsyncIterator[ZygoteUser]:
    with adopting_orphans():
        made = ZygoteUser()
        made.zygote.begin()
        made.forked.begin()
        await made.is_ready()
        await eventually(lambda: made.forked.pid is not None)
        try:
            yield made
        finally:
            await made.zygote.stop()
            await made.forked.stop(grace=0)


async def test_a_process_is_forked_from_the_zygote(user: ZygoteUser) -> None:
    assert _began_as(user.forked.pid) == _began_as(user.zygote.child.pid)


async def test_a_killed_process_is_forked_again(user: ZygoteUser) -> None:
    program = _began_as(user.zygote.child.pid)
    await user.kill(user.forked)
    assert _began_as(user.forked.pid) == program


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_zygote_that_dies_or_hangs_is_started_again_and_forks(user: ZygoteUser, by: signal.Signals) -> None:
    await user.kill(user.zygote.child, by=by)
    await user.is_ready()
    await user.kill(user.forked)
    assert _began_as(user.forked.pid) == _began_as(user.zygote.child.pid)


async def test_a_process_that_is_killed_with_its_zygote_waits_for_the_next_one(user: ZygoteUser) -> None:
    program = _began_as(user.forked.pid)
    await user.kill(user.zygote.child, user.forked)
    assert _began_as(user.forked.pid) == _began_as(user.zygote.child.pid) != program


async def test_without_a_zygote_that_works_a_process_is_started_as_a_program() -> None:
    user = ZygoteUser(replace(KIND, zygote=(sys.executable, "-c", "raise SystemExit(1)")))
    user.zygote.begin()
    user.forked.begin()
    try:
        await eventually(lambda: user.forked.pid is not None)
    finally:
        await user.zygote.stop()
        await user.forked.stop(grace=0)


async def test_descriptors_do_not_pile_up_over_forks(user: ZygoteUser) -> None:
    before = await user.descriptors()
    for _ in range(5):
        await user.kill(user.forked)
    assert await user.descriptors() == before


def _began_as(pid: int | None) -> str:
    """Return the memory address of the process's command line.

    It is random for each started program, and equal in its forks.
    """
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return words[45]  # arg_start


def _descriptors(pid: int | None) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  only their number counts
