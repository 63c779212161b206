"""Rows of JSON over a socket between fetcher and workers: many rows a line, so that a small file costs no system call."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from stoker_sidecar.wire.lines import LineBuffer, encode

Row = Sequence[Any]


class Lines(asyncio.Protocol):
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
