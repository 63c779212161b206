"""Readers of versions for tests: in the test's own process, or in real separate processes."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from stoker_orders.packed_map import pack_map
from stoker_sidecar.agent.questions.reading.version_reader import Arrays, VersionReader
from stoker_sidecar.errors import CacheError, ReadRefused
from stoker_sidecar.helpers.reader.answers import answer
from stoker_sidecar.wire.reader_protocol import Answer, Question, ReadRefusal, Unreadable, decode_answer, encode

T = TypeVar("T")
__all__ = ["InProcessReader", "pack_map", "process_reader"]


class InProcessReader(VersionReader):
    """Answers in a thread, without limits. ``asked`` has the requests so far."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))
        self.asked: list[Question] = []

    async def _ask(self, question: Question, build: "Callable[[Answer, Arrays], T]") -> T:
        self.asked.append(question)
        told, arrays = await asyncio.to_thread(answer, question)
        told = decode_answer(encode(told), question)
        if isinstance(told, ReadRefusal):
            raise ReadRefused(told.message)
        if isinstance(told, Unreadable):
            raise CacheError(told.message)
        return build(told, tuple(arrays))


@asynccontextmanager
async def process_reader(path: Path) -> AsyncIterator[Callable[[], list[int]]]:
    """Start a real reader for each connection to ``path``, as the keeper does. Yields a function that lists PIDs."""
    started: list[subprocess.Popen[bytes]] = []

    def start(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            command = [sys.executable, "-P", "-m", "stoker_sidecar.helpers.reader.main"]
            command += ["--connection-fd", str(connection.fileno())]
            started.append(subprocess.Popen(command, pass_fds=[connection.fileno()]))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen(16)
        loop = asyncio.get_running_loop()
        loop.add_reader(listener, start, listener)
        try:
            yield lambda: [one.pid for one in started]
        finally:
            loop.remove_reader(listener)
            for one in started:
                one.kill()
                one.wait()
