"""Entry point of the reader: ``python -m stoker_sidecar.helpers.reader.main``. The keeper starts it per question."""

import argparse
import fcntl
import logging
import os
import socket
import sys
from collections.abc import Sequence

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.helpers.reader.answers import answer, limit
from stoker_sidecar.linux.sandbox import one_question
from stoker_sidecar.wire.reader_protocol import MOST_QUESTION, decode_question, encode

_log = logging.getLogger("stoker.reader")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = one_question.parser("Reads files of one version")
    parser.add_argument("--confine", default="Auto", choices=("Auto", "Off"), help="hold it to that version's folder")
    return parser.parse_args(argv)


def end_with_asker(connection: socket.socket, *, on: bool) -> None:
    """Make the kernel end this process when the agent closes the connection."""
    flags = fcntl.fcntl(connection, fcntl.F_GETFL)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETFL, flags | os.O_ASYNC if on else flags & ~os.O_ASYNC)  # SIGIO's default


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one question; return the exit code."""
    options = _parse(sys.argv[1:] if argv is None else argv)
    connection = one_question.begin("stoker reader", options)
    try:
        question = decode_question(one_question.read_line(connection, MOST_QUESTION))
        if options.confine == "Auto":
            one_question.confine(question.folder)
        end_with_asker(connection, on=True)
        limit(question.seconds)
        told, arrays = answer(question)
        end_with_asker(connection, on=False)
        connection.sendall(encode(told))
        for one in arrays:
            connection.sendall(one)
    except (OSError, ValueError, ProtocolError) as error:  # the agent is gone, or has another version
        _log.warning("a question is not answered: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
