"""Learns from the fetcher which files were repaired on the disk, so that nothing is served from what was kept."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import trio

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.fetcher_protocol import Follow, Repaired, decode_reply, encode_request
from stoker_sidecar.wire.lines import LineBuffer

_log = logging.getLogger("stoker.fs")
# Seconds until a fetcher that is not there is looked for again: it tells everything again then.
_PAUSE = 1.0


class RepairFollower:
    """Follows the repairs of one version over the fetcher's socket; ``forget`` is called with each file's inode."""

    def __init__(self, socket: Path, follow: Follow, forget: Callable[[int], Awaitable[None]]) -> None:
        self._socket = socket
        self._follow = follow
        self._forget = forget

    async def run(self) -> None:
        """Connect, and again whenever the connection ends."""
        while True:
            with suppress(OSError, trio.BrokenResourceError):
                async with await trio.open_unix_socket(str(self._socket)) as stream:
                    await stream.send_all(encode_request(0, self._follow))
                    await self._listen(stream)
            await trio.sleep(_PAUSE)

    async def _listen(self, stream: trio.SocketStream) -> None:
        buffer = LineBuffer()
        async for data in stream:
            for line in buffer.feed(data):
                try:
                    _, reply = decode_reply(line)
                except ProtocolError as error:
                    _log.error("%s: connecting anew", error)
                    return
                if isinstance(reply, Repaired):
                    await self._forget(reply.ino)
