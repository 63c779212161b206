"""Entry point of the asker: ``python -m stoker_sidecar.asker.main``, which the keeper starts for each question."""

import argparse
import logging
import os
import resource
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from stoker_plugins.asking import ANSWER_SECONDS, Question
from stoker_plugins.discovery import InstalledPlugin, installed_order_plugins, installed_plugins
from stoker_plugins.orders import MOST_LOADED, ORDER_SECONDS, TO_LOAD, asked_for, most_bytes
from stoker_sidecar.asker.forked import Forks, LeftProcesses
from stoker_sidecar.asker.plugin_turn import PluginTurn
from stoker_sidecar.linux import libc
from stoker_sidecar.linux.confinement import Confinement
from stoker_sidecar.linux.landlock import TcpAccess
from stoker_sidecar.wire.order_questions import decode_order_question
from stoker_sidecar.wire.plugins_protocol import MOST_QUESTION, decode_question, encode_parts, encode_told
from stoker_tuning.frameworks.answers import parse_names

_log = logging.getLogger("stoker.asker")
_QUESTION_SECONDS = 10.0  # the agent sends it at once
_MOST_PROCESSES = 64  # of the asker's own user, threads of plug-ins included
_NICE = 10
_NOT_INSTALLED = "it is not installed in this image: see docs/PLUGINS.md"


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Asks plug-ins one question; started by the keeper.")
    parser.add_argument("--connection-fd", type=int, required=True, help="of the agent, which asks")
    parser.add_argument("--names", type=parse_names, required=True, help="of the plug-ins that are asked, by commas")
    parser.add_argument("--orders", action="store_true", help="they are order plug-ins, not those of frameworks")
    parser.add_argument("--own-user", action="store_true", help="no other process is of this user")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return parser.parse_args(argv)


def step_back(*, own_user: bool) -> None:
    """Be what the node ends first when its memory is used up, and what runs last when its cores are busy."""
    os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if own_user:
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))


def read_line(connection: socket.socket) -> bytes:
    """Read the agent's question. Raises OSError and ValueError."""
    connection.settimeout(_QUESTION_SECONDS)
    with connection.makefile("rb") as file:
        line = file.readline(MOST_QUESTION + 1)
    if not line.endswith(b"\n"):
        raise ValueError("the question does not end")
    return line


def chosen(names: Sequence[str], installed: Sequence[InstalledPlugin]) -> Iterator[InstalledPlugin]:
    """Yield the plug-ins of these names, also those that are not installed."""
    found = {one.name: one for one in reversed(installed) if one.name in names}
    for name in names:
        yield found.get(name) or InstalledPlugin(name, "", "", _NOT_INSTALLED)


def answer_frameworks(names: Sequence[str], line: bytes, turn: PluginTurn) -> Iterator[bytes]:
    """Ask framework plug-ins, one after the other, and yield what they say as lines. Raises ValueError."""
    question: Question = decode_question(line)
    for plugin in chosen([name for name in names if name in question["plugins"]], installed_plugins()):
        yield encode_told(turn.told(plugin, question, ANSWER_SECONDS))


def answer_order(names: Sequence[str], line: bytes, turn: PluginTurn) -> Iterator[bytes]:
    """Ask an order plug-in, or see whether it is there, and yield what it says as lines. Raises ValueError."""
    name, question = decode_order_question(line)
    asked, most = (TO_LOAD, MOST_LOADED) if question is None else (asked_for(question), most_bytes(question))
    for plugin in chosen([one for one in names if one == name], installed_order_plugins()):
        yield from encode_parts(turn.told(plugin, asked, ORDER_SECONDS, most))


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one question; return the exit code."""
    options = _parse(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    libc.name_process("stoker asker")
    libc.adopt_orphans()
    step_back(own_user=options.own_user)
    left = LeftProcesses()
    Confinement().begin(no_tcp=TcpAccess.BIND | TcpAccess.CONNECT)
    connection = socket.socket(fileno=options.connection_fd)
    try:
        line = read_line(connection)
        turn = PluginTurn(Forks([options.connection_fd, left.descriptor]), left)
        answer = answer_order if options.orders else answer_frameworks
        for said in answer(options.names, line, turn):
            connection.sendall(said)
    except (OSError, ValueError) as error:  # the agent is gone, or is of another version
        _log.warning("a question about plug-ins is not answered: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
