"""What fetcher and workers say to each other, as rows whose first word says what they are.

Fetcher: ``open`` source number, Source, credentials; ``close`` number; ``fetch`` job, source number, Piece; ``cancel`` job; ``ping``.
Worker: ``arrived`` job, bytes; ``done`` job, Fetched; ``failed`` job, error; ``pong``. A job is answered once, even when cancelled.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from stoker_api.names import Reason
from stoker_sidecar import errors
from stoker_sidecar.errors import InternalError, SidecarError
from stoker_sidecar.wire.lines import LineBuffer, encode

OPEN, CLOSE, FETCH, CANCEL, PING = "open", "close", "fetch", "cancel", "ping"
ARRIVED, DONE, FAILED, PONG = "arrived", "done", "failed", "pong"


def error_to_wire(error: BaseException) -> dict[str, Any]:
    """What is not of the sidecar's tree becomes an InternalError."""
    known = error if isinstance(error, SidecarError) else InternalError(f"a fetch failed: {error!r}")
    return {"kind": type(known).__name__, **vars(known)}


def error_from_wire(wire: dict[str, Any]) -> SidecarError:
    """The same error; an InternalError for a kind that is not known here."""
    fields = dict(wire)
    kind = getattr(errors, fields.pop("kind"), InternalError)
    error: SidecarError = kind.__new__(kind, fields["message"])
    vars(error).update(fields, reason=Reason(fields["reason"]))
    return error


Row = Sequence[Any]


class RowStream(asyncio.Protocol):
    """``received`` gets each row; ``lost`` is called once when the other side has gone away."""

    def __init__(self, received: Callable[[Row], None], lost: Callable[[], None]) -> None:
        self._received = received
        self._lost = lost
        self._transport: asyncio.WriteTransport | None = None
        self._rows: list[Row] = []
        self._lines = LineBuffer()

    def send(self, *row: Any) -> None:
        """Goes out with all others of this turn of the event loop; nowhere when the other side is gone."""
        if not self._rows:
            asyncio.get_running_loop().call_soon(self._flush)
        self._rows.append(row)

    def close(self) -> None:
        """Idempotent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of asyncio.Protocol."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Of asyncio.Protocol."""
        for line in self._lines.feed(data):
            for row in json.loads(line):
                self._received(row)

    def connection_lost(self, exc: Exception | None) -> None:
        """Of asyncio.Protocol."""
        self._transport = None
        self._lost()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if self._transport is not None:
            self._transport.write(encode(rows))
