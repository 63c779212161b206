"""An HTTP request to a loopback port of a pod, by a port-forward through the API server and the kubelet.

In the WebSocket protocol of the kubelet, each port has a data channel and an error channel. Every frame starts with
the channel number. The first frame of a channel has the port number.
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
    """Parses the frames of a forwarded port into the status and body of an HTTP answer. Does no I/O.

    ``most``: limit of the body in bytes. Raises KubeError for an invalid answer.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._received = bytearray()
        self._skipped = {_DATA: 0, _ERROR: 0}
        self._error = bytearray()
        self._head = -1  # bytes before the body; -1 until the head is complete
        self._length: int | None = None
        self.status = 0

    def feed(self, frame: bytes) -> None:
        """Take a frame. Raises KubeError for errors of the kubelet and for invalid answers."""
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
            raise _unavailable(f"the answer has more than {self._most} bytes")

    @property
    def done(self) -> bool:
        """True if all bytes of the Content-Length are received."""
        return self._length is not None and len(self._received) - self._head >= self._length

    def body(self) -> bytes:
        """Return the body. Raises KubeError if it is incomplete."""
        if self._head < 0 or (self._length is not None and not self.done):
            raise _unavailable("the connection ended before the answer was complete")
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
            raise _unavailable("the server on this port does not speak HTTP")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("content-length", "")
        self._head, self.status = end + 4, int(words[1][:3])
        self._length = int(length) if length.isdecimal() and len(length) <= 18 else None


async def ask(socket: aiohttp.ClientWebSocketResponse, path: str, most: int) -> bytes:
    """Return the body of ``GET path`` over a forwarded port.

    ``most``: limit in bytes. Raises KubeError, and NotFound if the path does not exist.
    """
    request = f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
    await socket.send_bytes(bytes([_DATA]) + request.encode())
    answer = ForwardedAnswer(most)
    while not answer.done:
        message = await socket.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            break  # closed; this ends an answer without a Content-Length
        answer.feed(message.data)
    body = answer.body()
    if answer.status != HTTPStatus.OK:
        raise from_status(answer.status, {"message": body.decode("utf-8", "replace").strip()[:500]}, 0.0)
    return body


def _unavailable(sentence: str) -> KubeError:
    return Unavailable(0, "PortForward", sentence)
