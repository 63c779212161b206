"""Blocking work in threads."""

import asyncio
import threading

import pytest

from stoker_sidecar.threads import in_thread


async def test_a_cancelled_task_waits_for_its_thread() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(10)
        ended.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_an_error_of_the_work_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)
