"""Starts `stoker mount`, which is a program of the sidecar package. The CLI does not import it (ADR 34)."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

PROGRAM = "stoker_sidecar.local"
# Without it, pydantic searches all installed packages for its plug-ins, which takes 0.02 s of CPU in each process.
_NO_PLUGINS = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
COMMANDS = ("mount", "umount")  # of `stoker`; the program parses all arguments


def exec_program(command: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process with the program. Raises OSError.

    SIGINT is blocked until the program handles it. Otherwise Ctrl-C during its start prints a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        command_line = [sys.executable, "-X", "utf8", "-P", "-m", PROGRAM, command, *arguments]
        os.execve(sys.executable, command_line, {**os.environ, **_NO_PLUGINS})
    finally:  # only after an error
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
