"""Work gives way to requests, for as long as that is worth it."""

import asyncio

import pytest

from stoker_operator.foreground import ForegroundRequests
from tests.support.virtual_time import run_virtual


def given_way(request_seconds: float | None, begun_before: float = 0.0, at_most: float = 0.05) -> float:
    """Return for how long work gives way to one request of that length; None: there is none."""
    requests = ForegroundRequests()

    async def ask(seconds: float) -> None:
        with requests.one():
            await asyncio.sleep(seconds)

    async def run() -> float:
        clock = asyncio.get_running_loop().time
        asking = asyncio.create_task(asyncio.sleep(0) if request_seconds is None else ask(request_seconds))
        await asyncio.sleep(begun_before)
        began = clock()
        await requests.answered(at_most)
        taken = clock() - began
        asking.cancel()
        return taken

    return run_virtual(run())


def test_work_goes_on_at_once_where_nobody_waits() -> None:
    assert given_way(None) == 0.0


def test_work_waits_until_a_request_is_answered() -> None:
    assert given_way(0.01) == pytest.approx(0.01, abs=0.0015)


def test_a_crowd_does_not_end_all_work() -> None:
    assert given_way(0.09) == pytest.approx(0.05, abs=0.0015)


def test_a_request_that_waits_for_something_else_holds_up_nobody() -> None:
    assert given_way(60.0, begun_before=1.0) == 0.0


def test_what_ended_is_not_counted() -> None:
    requests = ForegroundRequests()

    async def ask() -> int:
        with requests.one():
            return requests.count

    assert (run_virtual(ask()), requests.count) == (1, 0)
