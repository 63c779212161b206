"""Long decisions give the event loop back."""

import asyncio
from collections.abc import Generator

import pytest

from stoker_operator.reconcilers import slices
from stoker_operator.reconcilers.slices import in_slices


def counting(steps: int) -> Generator[None, None, int]:
    for _ in range(steps):
        yield
    return steps


async def test_a_short_decision_is_made_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "perf_counter", lambda: 0.0)
    others: list[int] = []
    asyncio.get_running_loop().call_soon(others.append, 1)
    assert (await in_slices(counting(100)), others) == (100, [])


async def test_a_long_one_lets_others_act_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    now, seen = iter(range(1000)), list[int]()
    monkeypatch.setattr(slices, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(slices, "REST", 0.0)
    waiting = asyncio.create_task(_count_turns(seen))
    await in_slices(counting(10))
    waiting.cancel()
    assert len(seen) >= 10


async def _count_turns(seen: list[int]) -> None:
    while True:
        seen.append(1)
        await asyncio.sleep(0)
