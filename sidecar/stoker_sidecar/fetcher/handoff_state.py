"""What the fetcher was told last, in memory that outlives it.

The next fetcher knows its datasets before the agent has come.
"""

import logging
import os
import struct
import zlib

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.fetcher_protocol import Configure, Shares, decode_request, encode_request

_log = logging.getLogger(__name__)
_HEADER = struct.Struct("<QQI")  # sequence number, bytes of the body, CRC-32 of both numbers and the body
# Offset of the second half, and the most that a half holds. The file is sparse: only what is written takes memory.
_HALF = 1 << 30
_SHARES = "shares"  # the key of what is of no dataset; no UID is written so


def pack(sequence: int, body: bytes) -> bytes:
    """One half. Pure."""
    numbers = struct.pack("<QQ", sequence, len(body))
    return _HEADER.pack(sequence, len(body), zlib.crc32(body, zlib.crc32(numbers))) + body


def unpack(half: bytes) -> tuple[int, bytes] | None:
    """Sequence number and body; None for what is empty, or was being written when its writer was killed. Pure."""
    if len(half) < _HEADER.size:
        return None
    sequence, length, _ = _HEADER.unpack_from(half)
    body = half[_HEADER.size : _HEADER.size + length]
    return (sequence, body) if sequence and pack(sequence, body) == half[: _HEADER.size + length] else None


class HandoffState:
    """The ``Configure`` requests of all datasets and the last ``Shares``, in the memory file ``fd``.

    None: nothing outlives this process.
    Written to two halves in turn, so that a kill in mid-write leaves the one before.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._sequence = 0
        self._lines: dict[str, bytes] = {}
        if fd is not None:
            halves = [half for number in (0, 1) if (half := unpack(_read(fd, number))) is not None]
            self._sequence, body = max(halves, default=(0, b""))
            for line in body.splitlines(keepends=True):
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            _, request = decode_request(line)
        except ProtocolError as error:
            _log.error("a dataset that an earlier fetcher knew is forgotten until the agent comes: %s", error)
            return
        if isinstance(request, Configure):
            self._lines[_uid(request)] = line
        elif isinstance(request, Shares):
            self._lines[_SHARES] = line

    @property
    def shares(self) -> list[Shares]:
        """The last shares of object stores, where there are any."""
        decoded = (decode_request(line)[1] for key, line in self._lines.items() if key == _SHARES)
        return [request for request in decoded if isinstance(request, Shares)]

    def shared(self, request: Shares) -> None:
        """Remember it instead of what was said of shares before."""
        self._remember(_SHARES, request)

    @property
    def requests(self) -> list[Configure]:
        """The last request of each dataset."""
        decoded = (decode_request(line)[1] for line in self._lines.values())
        return [request for request in decoded if isinstance(request, Configure)]

    def configured(self, request: Configure) -> None:
        """Remember it instead of what was said of its dataset before."""
        self._remember(_uid(request), request)

    def _remember(self, key: str, request: Configure | Shares) -> None:
        line = encode_request(0, request)
        if self._lines.get(key) != line:
            self._lines[key] = line
            self._write()

    def removed(self, uid: str) -> None:
        """Forget the dataset."""
        if self._lines.pop(uid, None) is not None:
            self._write()

    def _write(self) -> None:
        if self._fd is None:
            return
        self._sequence += 1
        half = pack(self._sequence, b"".join(self._lines.values()))
        if len(half) > _HALF:
            _log.error("%d bytes of configuration are more than can be handoff", len(half))
            return
        try:
            os.pwrite(self._fd, half, self._sequence % 2 * _HALF)
        except OSError as error:  # no memory left: the agent will tell the next fetcher
            _log.error("the configuration cannot be handoff for the next fetcher: %s", error)


def _read(fd: int, number: int) -> bytes:
    header = os.pread(fd, _HEADER.size, number * _HALF)
    if len(header) < _HEADER.size:
        return header
    return header + os.pread(fd, min(_HEADER.unpack(header)[1], _HALF), number * _HALF + _HEADER.size)


def _uid(request: Configure) -> str:
    return str(request.dataset.get("uid", ""))
