"""The reconcile loop: wake-ups, deadlines, retries."""

import asyncio
import itertools

import pytest

from stoker_kube.errors import Unavailable
from stoker_kube.events import EventRecorder
from stoker_operator.reconcilers.loops import loop as loops
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.loop import ReconcileLoop
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually

DOWN = Unavailable(503, "Down", "the API server is down")


class Passes:
    """Counts passes. The first ``failures`` passes raise ``error``; later ones return ``again``."""

    def __init__(self, again: float | None = None, failures: int = 0, error: Exception = DOWN) -> None:
        self._error = error
        self.count = 0
        self._again = again
        self._failures = failures
        self.work = KeyedWork("test", lambda: 0.0, EventRecorder(FakeKube(), "test"))

    async def reconcile(self) -> float | None:
        self.count += 1
        if self.count <= self._failures:
            raise self._error
        return self._again


async def running(passes: Passes) -> tuple[ReconcileLoop, asyncio.Task[None]]:
    loop = ReconcileLoop("test", passes, interval=0.0)
    return loop, asyncio.create_task(loop.run())


async def test_it_passes_once_at_start_and_then_when_woken() -> None:
    passes = Passes()
    loop, task = await running(passes)
    await eventually(lambda: passes.count == 1)
    loop.wake()
    loop.wake()
    await eventually(lambda: passes.count == 2)
    task.cancel()


async def test_passes_that_take_long_leave_as_much_time_for_the_rest() -> None:
    clock = asyncio.get_running_loop().time
    times: list[tuple[float, float]] = []  # start, end

    class Slow(Passes):
        async def reconcile(self) -> float | None:
            began = clock()
            await asyncio.sleep(0.05)
            times.append((began, clock()))
            return 0.0

    _, task = await running(Slow())
    await eventually(lambda: len(times) >= 3)
    task.cancel()
    assert all(after[0] - before[1] >= 0.045 for before, after in itertools.pairwise(times))


async def test_it_passes_again_when_the_time_that_a_pass_gave_is_over() -> None:
    passes = Passes(again=0.001)
    _, task = await running(passes)
    await eventually(lambda: passes.count >= 3)
    task.cancel()


@pytest.mark.parametrize("error", [DOWN, AttributeError("a bug")], ids=["outage", "bug"])
@pytest.mark.expected_logs("test pass failed")
async def test_a_pass_that_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(loops, "FIRST_RETRY", 0.001)
    passes = Passes(failures=2, error=error)
    _, task = await running(passes)
    await eventually(lambda: passes.count == 3)
    task.cancel()
