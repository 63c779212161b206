"""Reports the state of a training loop to Stoker, with only the standard library: copy it to the training code.

docs/guides/reports.md lists the fields. Call it at most a few times a second, from each process with its own rank.
"""

import json
import os
import socket

_SOCKET = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_SOCKET.setblocking(False)  # training never waits for a listener


def report(**said: object) -> None:
    """Send a report, such as ``report(epoch=3, step=1200, loss=0.71)``. Without a listener, it is dropped."""
    try:
        _SOCKET.sendto(json.dumps({"v": 1, **said}).encode(), os.environ["STOKER_REPORT_SOCKET"])
    except (OSError, KeyError):
        return
