"""A process that the keeper starts for one connection (keeper/activation.py): it answers one question and ends."""

import argparse
import os
import socket
from contextlib import suppress
from pathlib import Path

from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.linux import libc
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import TcpAccess

_SECONDS = 10.0  # for the question, which the agent sends at once, and for each part of the answer
_NICE = 10


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the common flags of these processes."""
    made = argparse.ArgumentParser(description=f"{description}; started by the keeper.")
    made.add_argument("--connection-fd", type=int, required=True, help="of the agent, which asks")
    made.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return made


def begin(name: str, options: argparse.Namespace) -> socket.socket:
    """Name this process and return its connection.

    It takes the lowest CPU priority, and the kernel kills it first when memory is short.
    """
    log_to_stderr(options.log_level)
    libc.name_process(name)
    os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    return socket.socket(fileno=options.connection_fd)


def read_line(connection: socket.socket, most: int) -> bytes:
    """Read the question, up to ``most`` bytes. Raises OSError and ValueError."""
    connection.settimeout(_SECONDS)
    with connection.makefile("rb") as file:
        line = file.readline(most + 1)
    if not line.endswith(b"\n"):
        raise ValueError("the question does not end")
    return line


def confine(*readable: str) -> None:
    """Confine this process to libraries and the ``readable`` folders, without TCP, if the kernel supports it."""
    Confinement(readable=readable).begin(no_tcp=TcpAccess.BIND | TcpAccess.CONNECT)
