"""Entry point of `stoker` and `kubectl-stoker`. Mounts start without loading the Kubernetes client."""

import os
import signal
import sys
from types import FrameType

from stoker_cli.local import mount

_INTERRUPTED = 128 + signal.SIGINT  # the exit code that shells use


def main() -> None:
    """Run the command line. Does not return."""
    signal.signal(signal.SIGINT, _end)
    command, *arguments = sys.argv[1:] or [""]
    if command in mount.COMMANDS:
        mount.exec_program(command, arguments)
    # click, the Kubernetes client and the API models take half a second to load. `stoker mount` needs none of them.
    from stoker_cli.main import main as commands

    signal.signal(signal.SIGINT, signal.default_int_handler)  # click handles KeyboardInterrupt in commands
    commands()


def _end(_number: int, _frame: FrameType | None) -> None:
    """Exit at once, because an import may be incomplete."""
    os._exit(_INTERRUPTED)
