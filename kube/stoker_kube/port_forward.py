"""One HTTP request to a port of a pod's loopback address, through the API server and the kubelet (port-forward).

The kubelet's WebSocket form of it: each port has two channels, one for data and one for errors. Every frame begins with
the number of its channel; the first one of each channel has the number of the port.
"""

from http import HTTPStatus
from typing import Final

import aiohttp

from stoker_kube.errors import KubeError, Unavailable, from_status

PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PORT_BYTES = 2  # of the first frame of each channel
_MOST_HEAD = 64 * 1024


class ForwardedAnswer:
    """What comes from the port: frames in, the answer's status and body out. Does no I/O.

    ``most``: bytes of the body. Raises KubeError where it cannot be an answer.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._received = bytearray()
        self._skipped = {_DATA: 0, _ERROR: 0}
        self._error = bytearray()
        self._head = -1  # bytes up to the body; -1: not all of the head is here
        self._length: int | None = None
        self.status = 0

    def feed(self, frame: bytes) -> None:
        """Take a frame. Raises KubeError for what the kubelet says went wrong, and for an answer that is none."""
        if not frame or frame[0] not in self._skipped:
            raise _unavailable("the kubelet sent a frame of an unknown channel")
        channel, content = frame[0], frame[1:]
        skip = min(_PORT_BYTES - self._skipped[channel], len(content))
        self._skipped[channel] += skip
        content = content[skip:]
        if channel == _ERROR and content:
            self._error += content[: _MOST_HEAD - len(self._error)]
            raise _unavailable(self._error.decode("utf-8", "replace").strip())
        self._received += content
        self._read_head()
        if len(self._received) - max(self._head, 0) > (self._most if self._head >= 0 else _MOST_HEAD):
            raise _unavailable(f"it answers with more than {self._most} bytes")

    @property
    def done(self) -> bool:
        """True when all that the answer's Content-Length tells of is here."""
        return self._length is not None and len(self._received) - self._head >= self._length

    def body(self) -> bytes:
        """Return the body. Raises KubeError where the connection ended before it was whole."""
        if self._head < 0 or (self._length is not None and not self.done):
            raise _unavailable("the connection ended before the answer did")
        return bytes(self._received[self._head :][: self._length])

    def _read_head(self) -> None:
        if self._head >= 0:
            return
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = bytes(self._received[:end]).decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdecimal():
            raise _unavailable("what listens there does not speak HTTP")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("content-length", "")
        self._head, self.status = end + 4, int(words[1][:3])
        self._length = int(length) if length.isdecimal() and len(length) <= 18 else None


async def ask(socket: aiohttp.ClientWebSocketResponse, path: str, most: int) -> bytes:
    """Return the body of ``GET path`` over a forwarded port.

    ``most``: bytes of it. Raises KubeError, and NotFound for a path that is not there.
    """
    request = f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
    await socket.send_bytes(bytes([_DATA]) + request.encode())
    answer = ForwardedAnswer(most)
    while not answer.done:
        message = await socket.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            break  # closed: an answer without a Content-Length ends so
        answer.feed(message.data)
    body = answer.body()
    if answer.status != HTTPStatus.OK:
        raise from_status(answer.status, {"message": body.decode("utf-8", "replace").strip()[:500]}, 0.0)
    return body


def _unavailable(sentence: str) -> KubeError:
    return Unavailable(0, "PortForward", sentence)
