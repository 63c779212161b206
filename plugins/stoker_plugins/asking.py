"""Asks one plug-in, in a separate process, with a deadline and a bounded answer."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from stoker_plugins.discovery import InstalledPlugin
from stoker_plugins.questions import PluginQuestion
from stoker_tuning.frameworks.answers import PluginRefusedError

A = TypeVar("A")
# Variables that Python needs to find packages. Plug-ins get no credentials.
PYTHON_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "VIRTUAL_ENV")
_BUFFER = 64 * 1024


# Starts the process of a plug-in, in a separate session, and returns its pid. The process writes its answer to the
# descriptor, which the caller closes.
StartPlugin = Callable[[InstalledPlugin, PluginQuestion[object], int], int]


def ask(plugin: InstalledPlugin, question: PluginQuestion[A], seconds: float | None = None) -> A:
    """Return the answer of a plug-in.

    Blocks for the question's ``seconds`` at most. Raises PluginRefusedError with a sentence: leave the plug-in out.
    """
    return question.read(plugin.name, answer_of(plugin, question, seconds=seconds))


def start_program(plugin: InstalledPlugin, question: PluginQuestion[object], answer: int) -> int:
    """Start a Python process for a plug-in: a StartPlugin. Raises OSError."""
    # -P: Python imports nothing from the current folder.
    command = [sys.executable, "-P", "-m", "stoker_plugins.child", plugin.name, plugin.value, str(answer)]
    environment = {name: os.environ[name] for name in PYTHON_VARIABLES if name in os.environ}
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(question.mapping()).encode())
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
    process.returncode = 0  # _end waits for it; Popen would complain
    return process.pid


def answer_of(
    plugin: InstalledPlugin,
    question: PluginQuestion[object],
    start: StartPlugin = start_program,
    seconds: float | None = None,
) -> bytes:
    """Return the unchecked answer of a plug-in.

    Blocks for the question's ``seconds`` at most. Raises PluginRefusedError if the plug-in does not answer in time,
    or at all.
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
            return _read(reading, question.seconds if seconds is None else seconds, question.most_bytes)
        finally:
            _end(pid)
    finally:
        os.close(reading)


def _read(descriptor: int, seconds: float, most: int) -> bytes:
    """Read an answer to its end. Raises PluginRefusedError if it does not end in time, or is too long."""
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
    """Kill the process and its session."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
