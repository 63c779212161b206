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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from stoker_plugins.discovery import InstalledPlugin
from stoker_tuning.frameworks.answers import MOST_ANSWER, PluginAnswer, PluginRefusedError, parse_answer
from stoker_tuning.frameworks.interface import MOST_HEAD

ANSWER_SECONDS = 5.0
# Of the environment, what Python needs to find packages; credentials are no plug-in's business.
_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "VIRTUAL_ENV")
_BUFFER = 64 * 1024


class FileHead(NamedTuple):
    """A file that plug-ins are asked about: its path, and its first bytes."""

    path: str
    head: bytes


def ask(
    plugin: InstalledPlugin,
    files: Sequence[FileHead],
    context: Mapping[str, Any],
    seconds: float = ANSWER_SECONDS,
) -> PluginAnswer:
    """Return what a plug-in says of the files and of a container (see ``container_context``).

    Blocks for ``seconds`` at most. Raises PluginRefusedError with a sentence: the plug-in is to be left out.
    """
    if plugin.refused:
        raise PluginRefusedError(plugin.refused)
    question = {"files": [(path, b64encode(head[:MOST_HEAD]).decode()) for path, head in files], "context": context}
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(question).encode())
        file.seek(0)
        reading, writing = os.pipe()
        try:
            process = _start(plugin, file.fileno(), writing)
        finally:
            os.close(writing)
        try:
            return parse_answer(plugin.name, _read(reading, seconds), len(files))
        finally:
            os.close(reading)
            _end(process)


def _start(plugin: InstalledPlugin, question: int, answer: int) -> "subprocess.Popen[bytes]":
    # -P: nothing is imported from the folder that the user happens to be in.
    command = [sys.executable, "-P", "-m", "stoker_plugins.child", plugin.name, plugin.value, str(answer)]
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    return subprocess.Popen(
        command,
        stdin=question,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(answer,),
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
    )


def _read(descriptor: int, seconds: float) -> bytes:
    """Read an answer to its end. Raises PluginRefusedError where it does not come, or does not end."""
    deadline, data = time.monotonic() + seconds, b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise PluginRefusedError(f"it did not answer within {seconds:g} s")
        more = os.read(descriptor, _BUFFER)
        if not more:
            break
        data += more
        if len(data) > MOST_ANSWER:
            raise PluginRefusedError(f"its answer is larger than {MOST_ANSWER // 1024} KiB")
    if not data:
        raise PluginRefusedError("its process ended without an answer")
    return data


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process, and what it started in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
