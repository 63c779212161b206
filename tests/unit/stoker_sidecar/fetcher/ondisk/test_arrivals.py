"""A reader that waits for more of a version is notified at once, or after a while without news."""

import asyncio

from stoker_sidecar.fetcher.ondisk.parts import Arrivals


async def test_who_knows_less_is_told_at_once() -> None:
    arrivals = Arrivals()
    await asyncio.wait_for(arrivals.past(arrivals.number - 1, 60.0), 30.0)


async def test_who_waits_is_told_when_something_comes() -> None:
    arrivals = Arrivals()
    before = arrivals.number
    waiting = [asyncio.create_task(arrivals.past(before, 60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    arrivals.came()
    await asyncio.wait_for(asyncio.gather(*waiting), 30.0)
    assert arrivals.number != before


async def test_nobody_waits_for_longer_than_that() -> None:
    arrivals = Arrivals()
    before = arrivals.number
    await asyncio.wait_for(arrivals.past(before, 0.01), 30.0)
    assert arrivals.number == before
