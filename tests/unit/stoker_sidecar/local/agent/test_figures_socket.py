"""The socket on which a mount reports its readers: only its user may ask, and answers are bounded."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stoker_api.node_caches.node_answer import MOST_TOLD, MountFigures
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_sidecar.agent.learning.tuning_history import HistoryKind, HistoryRow, TuningHistory
from stoker_sidecar.local.agent.figures_socket import FiguresSocket
from tests.support.cases import cases
from tests.support.waiting import eventually

FIGURES = MountFigures(folder="/data", workloads=(NodeWorkload(pod="mount/data", phase="Training"),))


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    history = TuningHistory(tmp_path / "history.db")
    body = json.dumps({"filler": "x" * 4000})
    history.add([HistoryRow(float(at), HistoryKind.PHASE, "mount/s3://b", "mount/data", body) for at in range(1000)])
    served = tmp_path / "figures.sock"
    task = asyncio.create_task(FiguresSocket(lambda: FIGURES, history).run(served))
    await eventually(lambda: listens(served), 30)
    yield served
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def ask(path: Path, line: bytes) -> Any:
    reader, writer = await asyncio.open_unix_connection(str(path), limit=2 * MOST_TOLD)
    writer.write(line + b"\n")
    answer = await reader.readline()
    writer.close()
    return json.loads(answer) if answer else None


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


async def test_who_mounts_is_told_who_reads_and_nobody_else_may_ask(path: Path) -> None:
    assert MountFigures.model_validate(await ask(path, b'{"show": "workloads"}')) == FIGURES
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600  # noqa: PTH116 -- a test


async def test_a_history_is_told_newest_first_and_no_more_of_it_than_an_answer_may_have(path: Path) -> None:
    answer = await ask(path, b'{"show": "history", "limit": 1000, "kind": ""}')
    assert len(answer["history"]) == 1000
    assert len(json.dumps(answer)) <= MOST_TOLD
    assert answer["history"][0]["at"] == 999.0
    few = await ask(path, b'{"show": "history", "limit": 2, "kind": "phase"}')
    assert len(few["history"]) == 2


@cases(
    "line",
    b"no",
    b"{}",
    b'{"show": "secrets"}',
    b'{"show": "history", "limit": 100000, "kind": ""}',
    b'{"show": "history", "limit": 1, "kind": "odd"}',
)
async def test_what_is_no_question_is_answered_with_a_sentence(path: Path, line: bytes) -> None:
    assert "error" in await ask(path, line)


async def test_a_question_without_an_end_is_given_up(path: Path) -> None:
    assert await ask(path, b"x" * 100_000) is None
    assert await ask(path, b'{"show": "workloads"}') is not None
