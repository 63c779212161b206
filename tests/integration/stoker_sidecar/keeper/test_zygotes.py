"""Two zygotes of one kind, real processes of a program that imports nothing: any one may be killed."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.zygotes import ZygoteKind, ZygotePair
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
    """What the keeper does with them: two zygotes, and one process that they fork."""

    def __init__(self, kind: ZygoteKind = KIND) -> None:
        reaper = Reaper()
        reaper.install()
        self.zygotes = ZygotePair(kind, reaper, None)
        start = self.zygotes.start([], None, {})
        self.forked = Child("forked", reaper, lambda: start, spawn=self.zygotes.spawn, until=self.zygotes.until_ready)

    def pids(self) -> list[int | None]:
        return [child.pid for child in self.zygotes.children]

    async def kill(self, *children: Child, by: signal.Signals = signal.SIGKILL) -> None:
        """Kill children, and return when others have taken their places."""
        before = [child.pid for child in children]
        for pid in before:
            end(pid, by)
        await eventually(lambda: all(child.pid not in (None, pid) for child, pid in zip(children, before, strict=True)))

    async def descriptors(self) -> list[int]:
        """Return how many each zygote has at rest: while it forks it has those of the new process, too."""
        looks = [[0], [-1]]

        def is_at_rest() -> bool:
            looks.append([_descriptors(pid) for pid in self.pids()])
            return looks[-1] == looks[-2]

        await eventually(is_at_rest)
        return looks[-1]

    async def both_ready(self) -> None:
        await eventually(lambda: len(self.zygotes.ready) == 2)


@pytest.fixture
async def user() -> AsyncIterator[ZygoteUser]:
    with adopting_orphans():
        made = ZygoteUser()
        made.zygotes.begin()
        made.forked.begin()
        await made.both_ready()
        await eventually(lambda: made.forked.pid is not None)
        try:
            yield made
        finally:
            await made.zygotes.stop()
            await made.forked.stop(grace=0)


async def test_all_descend_from_one_program(user: ZygoteUser) -> None:
    assert len({_began_as(pid) for pid in (*user.pids(), user.forked.pid)}) == 1


async def test_a_killed_zygote_is_forked_from_the_other_one(user: ZygoteUser) -> None:
    first, second = user.zygotes.children
    program = _began_as(second.pid)
    await user.kill(first)
    assert _began_as(first.pid) == program


@pytest.mark.parametrize("dead", [0, 1])
async def test_either_one_forks_when_the_other_is_dead(user: ZygoteUser, dead: int) -> None:
    program = _began_as(user.forked.pid)
    await user.kill(user.zygotes.children[dead], user.forked)
    assert _began_as(user.forked.pid) == program


async def test_the_other_one_forks_when_one_hangs(user: ZygoteUser) -> None:
    program = _began_as(user.forked.pid)
    end(user.zygotes.children[0].pid, signal.SIGSTOP)
    await user.kill(user.forked)
    assert _began_as(user.forked.pid) == program


async def test_when_all_are_killed_together_one_program_is_started_for_all(user: ZygoteUser) -> None:
    program = _began_as(user.forked.pid)
    await user.kill(*user.zygotes.children, user.forked)
    (another,) = {_began_as(pid) for pid in (*user.pids(), user.forked.pid)}
    assert another != program


async def test_without_a_zygote_that_works_a_process_is_started_as_a_program() -> None:
    user = ZygoteUser(replace(KIND, zygote=(sys.executable, "-c", "raise SystemExit(1)")))
    user.zygotes.begin()
    user.forked.begin()
    try:
        await eventually(lambda: user.forked.pid is not None)
    finally:
        await user.zygotes.stop()
        await user.forked.stop(grace=0)


async def test_descriptors_do_not_pile_up_over_generations(user: ZygoteUser) -> None:
    before = await user.descriptors()
    for generation in range(20):
        await user.kill(user.zygotes.children[generation % 2])
        await user.both_ready()
    assert await user.descriptors() == before


def _began_as(pid: int | None) -> str:
    """Return where the process's command line lies in memory.

    At random for each program that is started, and at the same place in what it forks.
    """
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return words[45]  # arg_start


def _descriptors(pid: int | None) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  only their number counts
