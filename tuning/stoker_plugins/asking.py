"""Asks one plug-in, in a process of its own, with a deadline; what it says is believed within bounds."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from stoker_plugins.discovery import InstalledPlugin
from stoker_tuning.frameworks.answers import MOST_ANSWER, PluginAnswer, PluginRefusedError, parse_answer
from stoker_tuning.frameworks.interface import MOST_HEAD

ANSWER_SECONDS = 5.0
# Of the environment, what Python needs to find packages; credentials are no plug-in's business.
PYTHON_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "VIRTUAL_ENV")
_BUFFER = 64 * 1024


class FileHead(NamedTuple):
    """A file that plug-ins are asked about: its path, and its first bytes."""

    path: str
    head: bytes


Question = Mapping[str, Any]  # files and a container, as the child process reads them
# Starts the process in which a plug-in is asked, in a session of its own; returns its pid. The descriptor is for its
# answer, and stays the caller's.
StartPlugin = Callable[[InstalledPlugin, Question, int], int]


def question_of(files: Sequence[FileHead], context: Mapping[str, Any]) -> Question:
    """Return what is asked about files and a container (see ``container_context``)."""
    return {"files": [(path, b64encode(head[:MOST_HEAD]).decode()) for path, head in files], "context": context}


def ask(
    plugin: InstalledPlugin,
    files: Sequence[FileHead],
    context: Mapping[str, Any],
    seconds: float = ANSWER_SECONDS,
) -> PluginAnswer:
    """Return what a plug-in says of the files and of a container (see ``container_context``).

    Blocks for ``seconds`` at most. Raises PluginRefusedError with a sentence: the plug-in is to be left out.
    """
    said = answer_of(plugin, question_of(files, context), seconds)
    return parse_answer(plugin.name, said, len(files))


def start_program(plugin: InstalledPlugin, question: Question, answer: int) -> int:
    """Start a Python of its own for a plug-in: a StartPlugin. Raises OSError."""
    # -P: nothing is imported from the folder that the user happens to be in.
    command = [sys.executable, "-P", "-m", "stoker_plugins.child", plugin.name, plugin.value, str(answer)]
    environment = {name: os.environ[name] for name in PYTHON_VARIABLES if name in os.environ}
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(question).encode())
        file.seek(0)
        process = subprocess.Popen(
            command,
            stdin=file.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(answer,),
            env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
    process.returncode = 0  # waited for below; Popen would complain that it never saw it end
    return process.pid


def answer_of(
    plugin: InstalledPlugin,
    question: Question,
    seconds: float,
    start: StartPlugin = start_program,
    most: int = MOST_ANSWER,
) -> bytes:
    """Return what a plug-in says, unread, ``most`` bytes at most. Blocks for ``seconds`` at most.

    Raises PluginRefusedError: it says nothing, in time or at all.
    """
    if plugin.refused:
        raise PluginRefusedError(plugin.refused)
    reading, writing = os.pipe()
    try:
        try:
            pid = start(plugin, question, writing)
        finally:
            os.close(writing)
        try:
            return _read(reading, seconds, most)
        finally:
            _end(pid)
    finally:
        os.close(reading)


def _read(descriptor: int, seconds: float, most: int) -> bytes:
    """Read an answer to its end. Raises PluginRefusedError where it does not come, or does not end."""
    deadline, data = time.monotonic() + seconds, bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise PluginRefusedError(f"it did not answer within {seconds:g} s")
        more = os.read(descriptor, _BUFFER)
        if not more:
            break
        data += more
        if len(data) > most:
            raise PluginRefusedError(f"its answer is larger than {most // 1024} KiB")
    if not data:
        raise PluginRefusedError("its process ended without an answer")
    return bytes(data)


def _end(pid: int) -> None:
    """End the process, and what it started in its session."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
