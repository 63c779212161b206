"""What fetcher and workers say to each other: a list of messages a line, so that a small file costs no system call."""

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

# Messages that wait for others, and seconds: to wake the other process for each takes as much as to answer three more.
_MOST_HELD, _HELD_SECONDS = 16, 0.001
# What a fetch may end with; their constructors take the same.
_TREES: tuple[type[SidecarError], ...] = (SourceError, CacheError)
_ERRORS: dict[str, type[SidecarError]] = {
    kind.__name__: kind for tree in _TREES for kind in (tree, *tree.__subclasses__())
}


class OpenStoreOrder(Struct, frozen=True, array_like=True, tag="open"):
    """An order to let ``store`` stand for this source (Source wire) and identity from now on."""

    store: int
    source: dict[str, Any]
    credentials: Credentials


class CloseStoreOrder(Struct, frozen=True, array_like=True, tag="close"):
    """An order to close a store that is not needed any more."""

    store: int


class FetchOrder(Struct, frozen=True, array_like=True, tag="fetch"):
    """An order to bring a piece. Each job is answered once by `PieceDone` or `PieceFailed`, even when cancelled."""

    job: int
    store: int
    piece: Piece


class CancelOrder(Struct, frozen=True, array_like=True, tag="cancel"):
    """An order to leave off a job that no one waits for any more."""

    job: int


class Ping(Struct, frozen=True, array_like=True, tag="ping"):
    """An order to say something."""


class BytesArrived(Struct, frozen=True, array_like=True, tag="arrived"):
    """News that a job's piece is on the disk up to its byte ``here``; not of one that ``told_by_its_end`` holds for."""

    job: int
    here: int


class PieceDone(Struct, frozen=True, array_like=True, tag="done"):
    """An answer: the piece is on the disk."""

    job: int
    fetched: Fetched


class PieceFailed(Struct, frozen=True, array_like=True, tag="failed"):
    """An answer: the job ended with an error, which `error` makes anew. ``kind``: the name of its class."""

    job: int
    kind: str
    message: str
    reason: Reason
    temporary: bool
    retry_after: float  # seconds

    @classmethod
    def of(cls, job: int, error: BaseException) -> Self:
        """Describe an error; what is not of the sidecar's tree becomes an InternalError."""
        known = error if isinstance(error, SidecarError) else InternalError(f"a fetch failed: {error!r}")
        return cls(job, type(known).__name__, known.message, known.reason, known.temporary, known.retry_after)

    @property
    def error(self) -> SidecarError:
        """The same error; an InternalError for a kind that no fetch ends with."""
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

    ``decode`` reads the messages of a line, and ``received`` gets each; ``lost`` is called once when the other side has
    gone away. A line that does not parse ends the connection.
    """

    def __init__(
        self, decode: Callable[[bytes], list[M]], received: Callable[[M], None], lost: Callable[[], None]
    ) -> None:
        self._decode = decode
        self._received = received
        self._lost = lost
        self._transport: asyncio.WriteTransport | None = None
        self._messages: list[ToWorker | FromWorker] = []
        self._flushing: asyncio.Handle | None = None  # at the next turn of the event loop, or at its time
        self._lines = LineBuffer()

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message with all others of this turn of the event loop; to nowhere when the other side is gone."""
        self._messages.append(message)
        if self._flushing is None or isinstance(self._flushing, asyncio.TimerHandle):
            self._flush_by(asyncio.get_running_loop().call_soon(self._flush))

    def send_among_others(self, message: ToWorker | FromWorker) -> None:
        """Send a message that more are expected to follow: with them, but within 1 ms, so that they wake one reader."""
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
        """Take over the transport, as asyncio.Protocol says."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Read what has come, as asyncio.Protocol says."""
        for line in self._lines.feed(data):
            for message in self._decode(line):
                self._received(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that the other side is gone, as asyncio.Protocol says."""
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
