"""Starts `stoker mount`, which is a program of the sidecar package. The CLI does not import it (ADR 34)."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

PROGRAM = "stoker_sidecar.local"
COMMANDS = ("mount", "umount")  # of `stoker`; the program parses all arguments


def exec_program(command: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process with the program. Raises OSError.

    SIGINT is blocked until the program handles it. Otherwise Ctrl-C during its start prints a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-P", "-m", PROGRAM, command, *arguments])
    finally:  # only after an error
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
