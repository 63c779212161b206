"""Hands `stoker mount` over to the sidecar's program for one machine, which the CLI does not import (ADR 16)."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

PROGRAM = "stoker_sidecar.local"
COMMANDS = ("mount", "umount")  # of `stoker`, whose words are all that program's


def become(command: str, arguments: Sequence[str]) -> NoReturn:
    """Turn this process into that program: signals, terminal and exit code are its own. Raises OSError."""
    os.execv(sys.executable, [sys.executable, "-m", PROGRAM, command, *arguments])
