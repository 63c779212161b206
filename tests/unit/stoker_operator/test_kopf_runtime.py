"""kopf in its thread: restarted when it ends, and stopped with the process."""

import asyncio
import threading
from typing import Any

import kopf
import pytest

from stoker_api import names
from stoker_api.backoff import Backoff
from stoker_operator.handlers.kopf_runtime import KopfThread, make_registry, make_settings
from tests.fakes.sidecar import settled
from tests.support.waiting import eventually


class Scripted:
    """Replaces ``kopf.operator``: fails ``failures`` times, then runs until ``stop_flag`` is set."""

    def __init__(self, failures: int = 0) -> None:
        self.starts: list[str] = []
        self.stops = 0
        self._failures = failures

    async def __call__(self, *, stop_flag: asyncio.Future[None], **_: Any) -> None:
        self.starts.append(threading.current_thread().name)
        if len(self.starts) <= self._failures:
            raise RuntimeError("no cluster")
        await stop_flag
        self.stops += 1


def thread() -> KopfThread:
    return KopfThread(make_registry(lambda *event: None), Backoff(first=0.001))


async def test_it_runs_in_a_thread_of_its_own_and_ends_with_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted()
    monkeypatch.setattr(kopf, "operator", scripted)
    running = asyncio.create_task(thread().run())
    await eventually(lambda: scripted.starts == ["kopf"])
    await settled(running)
    assert scripted.stops == 1


@pytest.mark.expected_logs("is started again")
async def test_it_is_started_again_after_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(failures=2)
    monkeypatch.setattr(kopf, "operator", scripted)
    running = asyncio.create_task(thread().run())
    await eventually(lambda: len(scripted.starts) == 3)
    await settled(running)


@pytest.mark.expected_logs("is started again")
async def test_it_can_be_told_to_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted()
    monkeypatch.setattr(kopf, "operator", scripted)
    subject = thread()
    running = asyncio.create_task(subject.run())
    await eventually(lambda: len(scripted.starts) == 1)
    subject.restart()
    await eventually(lambda: len(scripted.starts) == 2)
    await settled(running)


def test_kopf_would_remove_a_finalizer_of_its_own_name_so_that_is_not_ours() -> None:
    assert make_settings().persistence.finalizer != names.FINALIZER
