"""The last requests of the agent, in memory that outlives the fetcher.

The next fetcher knows its datasets before the agent connects. The memory file has a snapshot of all requests in one of
two halves, then a log with a record for each later request. So a request costs its own bytes.
"""

import logging
import os
import struct
import zlib
from collections.abc import Iterator

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.config.ca_bundles import ca_of, digest_of, with_bundle, without_bundle
from stoker_sidecar.wire.fetcher_protocol import (
    Configure,
    Remove,
    Request,
    Shares,
    Trust,
    TrustingConfigure,
    decode_request,
    encode_request,
)

_log = logging.getLogger(__name__)
_HEADER = struct.Struct("<QQI")  # sequence number, bytes of the body, CRC-32 of both numbers and the body
# Offset of the second half, and of the log. The file is sparse: only written parts take memory.
_HALF, _LOG = 1 << 30, 2 << 30
_MOST = 32 * 1024**2  # bytes of a half, and of the log
_LEAST_LOG = 64 * 1024
_SHARES = "shares"  # the key of the shares; no UID is written so


def pack(sequence: int, body: bytes) -> bytes:
    """One half, or a record of the log. Pure."""
    numbers = struct.pack("<QQ", sequence, len(body))
    return _HEADER.pack(sequence, len(body), zlib.crc32(body, zlib.crc32(numbers))) + body


def unpack(half: bytes) -> tuple[int, bytes] | None:
    """Return sequence number and body. None if it is empty, or if a kill interrupted its writer. Pure."""
    if len(half) < _HEADER.size:
        return None
    sequence, length, _ = _HEADER.unpack_from(half)
    body = half[_HEADER.size : _HEADER.size + length]
    return (sequence, body) if sequence and pack(sequence, body) == half[: _HEADER.size + length] else None


class HandoffState:
    """The ``Configure`` requests of all datasets and the last ``Shares``, in the memory file ``fd``.

    None: nothing outlives this process. A kill in mid-write leaves the previous content. CA bundles are in it once.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._sequence = 0
        self._lines: dict[str, bytes] = {}
        self._bundles: dict[str, bytes] = {}  # lines of bundles, by their hash
        self._logged = self._snapshot = 0  # bytes
        if fd is not None:
            self._read(fd)

    def _read(self, fd: int) -> None:
        if max(_length(fd, offset) for offset in (0, _HALF)) > _MOST:
            self._give_up("what an earlier fetcher was told")
            return
        halves = [half for offset in (0, _HALF) if (half := unpack(_record(fd, offset))) is not None]
        self._sequence, body = max(halves, default=(0, b""))
        self._snapshot = len(body)
        for line in body.splitlines(keepends=True):
            self._take(line)
        while self._logged < _MOST and (record := unpack(_record(fd, _LOG + self._logged))) is not None:
            if record[0] != self._sequence:
                break
            self._logged += _HEADER.size + len(record[1])
            for line in record[1].splitlines(keepends=True):
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
        elif isinstance(request, Trust):
            self._bundles[request.sha256] = line
        elif isinstance(request, Remove):
            self._lines.pop(request.uid, None)

    @property
    def shares(self) -> list[Shares]:
        """The last shares of object stores, if any."""
        return [request for request in self._decoded() if isinstance(request, Shares)]

    def shared(self, request: Shares) -> None:
        """Remember the shares in place of the last ones."""
        self._remember(_SHARES, encode_request(0, request))

    @property
    def requests(self) -> list[Configure]:
        """The last request of each dataset. A dataset whose CA bundle is lost waits for the agent."""
        bundles = {digest: _pem(line) for digest, line in self._bundles.items()}
        found: list[Configure] = []
        for request in self._decoded():
            if isinstance(request, TrustingConfigure):
                if request.ca in bundles:
                    found.append(with_bundle(request, bundles[request.ca]))
            elif isinstance(request, Configure):
                found.append(request)
        return found

    def configured(self, request: Configure) -> None:
        """Remember the request in place of the dataset's last one."""
        if self._fd is None:
            return
        first = b""
        if pem := ca_of(request):
            digest = digest_of(pem)
            if digest not in self._bundles:
                first = self._bundles[digest] = encode_request(0, Trust(digest, pem))
            request = without_bundle(request, digest)
        self._remember(_uid(request), encode_request(0, request), first)

    def removed(self, uid: str) -> None:
        """Forget the dataset."""
        if self._lines.pop(uid, None) is not None:
            self._append(encode_request(0, Remove(uid)))

    def close(self) -> None:
        """Leave a snapshot alone, which earlier releases read too. Idempotent."""
        if self._logged:
            self._write_snapshot()

    def _decoded(self) -> Iterator[Request]:
        return (decode_request(line)[1] for line in self._lines.values())

    def _remember(self, key: str, line: bytes, first: bytes = b"") -> None:
        if self._fd is not None and self._lines.get(key) != line:
            self._lines[key] = line
            self._append(first + line)

    def _append(self, lines: bytes) -> None:
        """Append a record to the log. Write a snapshot in place of a log that would be longer than it."""
        if not self._sequence or self._logged + len(lines) > max(_LEAST_LOG, self._snapshot):
            self._write_snapshot()
            return
        record = pack(self._sequence, lines)
        self._write(record, _LOG + self._logged)
        self._logged += len(record)

    def _write_snapshot(self) -> None:
        self._forget_bundles()
        body = b"".join([*self._bundles.values(), *self._lines.values()])
        if len(body) > _MOST:
            self._give_up("what this fetcher was told")
            return
        self._sequence += 1
        self._snapshot, self._logged = len(body), 0
        self._write(pack(self._sequence, body), self._sequence % 2 * _HALF)

    def _forget_bundles(self) -> None:
        used = {request.ca for request in self._decoded() if isinstance(request, TrustingConfigure)}
        self._bundles = {digest: line for digest, line in self._bundles.items() if digest in used}

    def _give_up(self, what: str) -> None:
        """Remember nothing: rather wait for the agent than read too much again and again."""
        _log.error("%s takes more than %d MiB: the next fetcher waits for the agent", what, _MOST >> 20)
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
        self._fd, self._lines, self._bundles = None, {}, {}

    def _write(self, content: bytes, offset: int) -> None:
        if self._fd is None:
            return
        try:
            os.pwrite(self._fd, content, offset)
        except OSError as error:  # no memory left: the agent will tell the next fetcher
            _log.error("the configuration cannot be handed to the next fetcher: %s", error)


def _length(fd: int, offset: int) -> int:
    header = os.pread(fd, _HEADER.size, offset)
    return int(_HEADER.unpack(header)[1]) if len(header) == _HEADER.size else 0


def _record(fd: int, offset: int) -> bytes:
    """Read a half, or a record of the log, up to the largest size allowed."""
    return os.pread(fd, _HEADER.size + min(_length(fd, offset), _MOST), offset)


def _pem(line: bytes) -> str:
    request = decode_request(line)[1]
    return request.pem if isinstance(request, Trust) else ""


def _uid(request: Configure) -> str:
    return str(request.dataset.get("uid", ""))
