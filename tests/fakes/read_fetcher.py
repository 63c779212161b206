"""A fetcher for the tests of the read side.

It uses the real protocol on a real socket, and fetches what its ``answer`` sets.
"""

import socketserver
import threading
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from stoker_sidecar.wire.fetcher_protocol import Failed, Follow, Read, Repaired, Reply, decode_request, encode_reply

Answer = Callable[[Read], Reply]


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    answer: Answer
    followers: list[tuple[int, BufferedIOBase]]


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = cast("_Server", self.server)
        for line in self.rfile:
            number, request = decode_request(line)
            if isinstance(request, Follow):
                server.followers.append((number, self.wfile))
                continue
            if not isinstance(request, Read):
                raise TypeError(f"a file-system server asked {request}")
            try:
                self.wfile.write(encode_reply(number, server.answer(request)))
            except OSError:
                return  # the requesting server was killed


class FetcherForReads:
    """A context manager. ``answer`` may be changed at any time. ``asked`` has every read request."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Read] = []
        path.unlink(missing_ok=True)
        self._server = _Server(str(path), _Connection)
        self._server.answer = self._remember
        self._server.followers = []
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def followers(self) -> int:
        """The number of file-system servers that follow repairs."""
        return len(self._server.followers)

    def repaired(self, ino: int) -> None:
        """Report the repair of a file to every file-system server that follows."""
        for number, follower in self._server.followers:
            follower.write(encode_reply(number, Repaired(ino)))

    def _remember(self, request: Read) -> Reply:
        self.asked.append(request)
        return self.answer(request)

    def __enter__(self) -> "FetcherForReads":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def fails(code: int, message: str) -> Answer:
    """Answer every request with this failure."""
    return lambda request: Failed(code, message)
