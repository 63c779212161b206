"""Messages between fetcher and workers. A line holds a list of messages, so that small files share a system call."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, cast

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from stoker_api.names import Reason
from stoker_sidecar.errors import CacheError, InternalError, SidecarError, SourceError
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.lines import LineBuffer
from stoker_sidecar.worker.transfer import Fetched, Piece

# Most messages to hold back, and for how many seconds. Waking the other process costs as much as answering three jobs.
_MOST_HELD, _HELD_SECONDS = 16, 0.001
# Errors of a fetch. All have the same constructor.
_TREES: tuple[type[SidecarError], ...] = (SourceError, CacheError)
_ERRORS: dict[str, type[SidecarError]] = {
    kind.__name__: kind for tree in _TREES for kind in (tree, *tree.__subclasses__())
}


class OpenStoreOrder(Struct, frozen=True, array_like=True, tag="open"):
    """An order to open a store under the number ``store``. ``source``: wire format of a Source."""

    store: int
    source: dict[str, Any]
    credentials: Credentials


class CloseStoreOrder(Struct, frozen=True, array_like=True, tag="close"):
    """An order to close a store."""

    store: int


class FetchOrder(Struct, frozen=True, array_like=True, tag="fetch"):
    """An order to fetch a piece. Each job gets one answer, `PieceDone` or `PieceFailed`, even if it is cancelled."""

    job: int
    store: int
    piece: Piece


class CancelOrder(Struct, frozen=True, array_like=True, tag="cancel"):
    """An order to cancel a job."""

    job: int


class Ping(Struct, frozen=True, array_like=True, tag="ping"):
    """An order to answer with a `Pong`."""


class BytesArrived(Struct, frozen=True, array_like=True, tag="arrived"):
    """A job's piece is on the disk up to its byte ``here``. Not sent for a piece that is ``told_by_its_end``."""

    job: int
    here: int


class PieceDone(Struct, frozen=True, array_like=True, tag="done"):
    """An answer: the piece is on the disk."""

    job: int
    fetched: Fetched


class PieceFailed(Struct, frozen=True, array_like=True, tag="failed"):
    """An answer: the job failed. `error` restores the exception; ``kind`` is the name of its class."""

    job: int
    kind: str
    message: str
    reason: Reason
    temporary: bool
    retry_after: float  # seconds

    @classmethod
    def of(cls, job: int, error: BaseException) -> Self:
        """Describe an error. An error that is no SidecarError becomes an InternalError."""
        known = error if isinstance(error, SidecarError) else InternalError(f"a fetch failed: {error!r}")
        return cls(job, type(known).__name__, known.message, known.reason, known.temporary, known.retry_after)

    @property
    def error(self) -> SidecarError:
        """The restored error; an InternalError if its kind is no error of a fetch."""
        kind = _ERRORS.get(self.kind, InternalError)
        return kind(self.message, reason=self.reason, temporary=self.temporary, retry_after=self.retry_after)


class Pong(Struct, frozen=True, array_like=True, tag="pong"):
    """An answer to a ping."""


ToWorker = OpenStoreOrder | CloseStoreOrder | FetchOrder | CancelOrder | Ping
FromWorker = BytesArrived | PieceDone | PieceFailed | Pong
M = TypeVar("M")

_encode = Encoder().encode
decode_to_worker = Decoder(list[ToWorker]).decode
decode_from_worker = Decoder(list[FromWorker]).decode


class MessageStream(asyncio.Protocol, Generic[M]):
    """One end of the socket between fetcher and worker.

    ``decode`` reads the messages of a line; ``received`` is called with each message; ``lost`` is called once when the
    peer process is gone. A line that does not parse ends the connection.
    """

    def __init__(
        self, decode: Callable[[bytes], list[M]], received: Callable[[M], None], lost: Callable[[], None]
    ) -> None:
        self._decode = decode
        self._received = received
        self._lost = lost
        self._transport: asyncio.WriteTransport | None = None
        self._messages: list[ToWorker | FromWorker] = []
        self._flushing: asyncio.Handle | None = None  # a handle for the next turn of the event loop, or a timer
        self._lines = LineBuffer()

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message at the end of this turn of the event loop. Drop it if the peer process is gone."""
        self._messages.append(message)
        if self._flushing is None or isinstance(self._flushing, asyncio.TimerHandle):
            self._flush_by(asyncio.get_running_loop().call_soon(self._flush))

    def send_among_others(self, message: ToWorker | FromWorker) -> None:
        """Send a message with those that follow within 1 ms, so that the peer process wakes once."""
        if len(self._messages) >= _MOST_HELD:
            self.send(message)
            return
        self._messages.append(message)
        if self._flushing is None:
            self._flush_by(asyncio.get_running_loop().call_later(_HELD_SECONDS, self._flush))

    def close(self) -> None:
        """Close the socket. Idempotent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport. Part of asyncio.Protocol."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Read the received bytes. Part of asyncio.Protocol."""
        for line in self._lines.feed(data):
            for message in self._decode(line):
                self._received(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Call ``lost``. Part of asyncio.Protocol."""
        self._transport = None
        self._lost()

    def _flush_by(self, handle: asyncio.Handle) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing = handle

    def _flush(self) -> None:
        self._flushing = None
        messages, self._messages = self._messages, []
        if self._transport is not None:
            self._transport.write(_encode(messages) + b"\n")
