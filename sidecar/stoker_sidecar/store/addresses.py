"""The addresses of one host: asked for once for all connections that begin within some seconds."""

import asyncio
import socket
from typing import Any

# Seconds that an answer is good for; the same as aiohttp's. Amazon's names live for 5, and each brings other addresses.
_GOOD_FOR = 10.0

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # as socket.getaddrinfo gives it


class Addresses:
    """Of ``host`` for ``port``."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._asked: asyncio.Task[list[AddressInfo]] | None = None
        self._until = 0.0

    async def get(self) -> list[AddressInfo]:
        """Raises OSError when the name does not resolve, to all who wait; the next one asks again."""
        asked = self._asked
        if asked is None or (asked.done() and asyncio.get_running_loop().time() > self._until):
            asked = self._asked = asyncio.create_task(self._ask())
            asked.add_done_callback(self._answered)
        return await asyncio.shield(asked)  # who goes away leaves the others their answer

    async def _ask(self) -> list[AddressInfo]:
        loop = asyncio.get_running_loop()
        return [*await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)]

    def _answered(self, asked: "asyncio.Task[list[AddressInfo]]") -> None:
        failed = asked.cancelled() or asked.exception() is not None
        self._until = 0.0 if failed else asyncio.get_running_loop().time() + _GOOD_FOR
