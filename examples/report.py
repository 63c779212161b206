"""Tells Stoker what a training loop does, with Python's standard library alone: copy it beside the training code.

See docs/REPORTS.md for what may be said. Call it some times a second at most, from each process with its own rank.
"""

import json
import os
import socket

_SOCKET = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_SOCKET.setblocking(False)  # training never waits for whoever listens


def report(**said: object) -> None:
    """Say it, such as ``report(epoch=3, step=1200, loss=0.71)``; where nobody listens it is not said."""
    try:
        _SOCKET.sendto(json.dumps({"v": 1, **said}).encode(), os.environ["STOKER_REPORT_SOCKET"])
    except (OSError, KeyError):
        return
