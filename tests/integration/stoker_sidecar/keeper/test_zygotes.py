"""Two nurseries of one kind, real processes of a program that imports nothing: any one may be killed."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.zygote import Kind
from stoker_sidecar.keeper.zygote_pair import Nurseries
from stoker_sidecar.linux.libc import adopt_orphans
from stoker_sidecar.linux.spawn import end
from tests.support.waiting import eventually

_NURSERY = """
import signal
from stoker_sidecar.wire.zygote_orders import run_nursery
run_nursery(lambda arguments: signal.pause(), "stoker-forked", None)
"""
_SLOW = "import signal; signal.pause()"
KIND = Kind("nursery", (sys.executable, "-c", _SLOW), (sys.executable, "-c", _NURSERY))


class House:
    """The keeper's part: two nurseries, and one process that they fork."""

    def __init__(self, kind: Kind = KIND) -> None:
        reaper = Reaper()
        reaper.install()
        adopt_orphans()
        self.nurseries = Nurseries(kind, reaper, None)
        start = self.nurseries.start([], None, {})
        self.forked = Child(
            "forked", reaper, lambda: start, spawn=self.nurseries.spawn, until=self.nurseries.until_ready
        )

    def pids(self) -> list[int | None]:
        return [child.pid for child in self.nurseries.children]

    async def kill(self, *children: Child, by: signal.Signals = signal.SIGKILL) -> None:
        """Returns when others have taken their places."""
        before = [child.pid for child in children]
        for pid in before:
            end(pid, by)
        await eventually(lambda: all(child.pid not in (None, pid) for child, pid in zip(children, before, strict=True)))

    async def both_ready(self) -> None:
        await eventually(lambda: len(self.nurseries.ready) == 2)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    made.nurseries.begin()
    made.forked.begin()
    await made.both_ready()
    await eventually(lambda: made.forked.pid is not None)
    try:
        yield made
    finally:
        await made.nurseries.stop()
        await made.forked.stop(grace=0)


async def test_all_descend_from_one_program(house: House) -> None:
    assert len({_began_as(pid) for pid in (*house.pids(), house.forked.pid)}) == 1


async def test_a_killed_nursery_is_forked_from_the_other_one(house: House) -> None:
    first, second = house.nurseries.children
    program = _began_as(second.pid)
    await house.kill(first)
    assert _began_as(first.pid) == program


@pytest.mark.parametrize("dead", [0, 1])
async def test_either_one_forks_when_the_other_is_dead(house: House, dead: int) -> None:
    program = _began_as(house.forked.pid)
    await house.kill(house.nurseries.children[dead], house.forked)
    assert _began_as(house.forked.pid) == program


async def test_the_other_one_forks_when_one_hangs(house: House) -> None:
    program = _began_as(house.forked.pid)
    end(house.nurseries.children[0].pid, signal.SIGSTOP)
    await house.kill(house.forked)
    assert _began_as(house.forked.pid) == program


async def test_when_all_are_killed_together_one_program_is_started_for_all(house: House) -> None:
    program = _began_as(house.forked.pid)
    await house.kill(*house.nurseries.children, house.forked)
    (another,) = {_began_as(pid) for pid in (*house.pids(), house.forked.pid)}
    assert another != program


async def test_without_a_nursery_that_works_a_process_is_started_as_a_program() -> None:
    house = House(replace(KIND, nursery=(sys.executable, "-c", "raise SystemExit(1)")))
    house.nurseries.begin()
    house.forked.begin()
    try:
        await eventually(lambda: house.forked.pid is not None)
    finally:
        await house.nurseries.stop()
        await house.forked.stop(grace=0)


async def test_descriptors_do_not_pile_up_over_generations(house: House) -> None:
    before = [_descriptors(pid) for pid in house.pids()]
    for generation in range(20):
        await house.kill(house.nurseries.children[generation % 2])
        await house.both_ready()
    assert [_descriptors(pid) for pid in house.pids()] == before


def _began_as(pid: int | None) -> str:
    """Where its command line lies in memory: at random for each program that is started, and at the same place in what it forks."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return words[45]  # arg_start


def _descriptors(pid: int | None) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  only their number counts
