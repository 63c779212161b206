"""Lets those wait who want to know when more of a version is here: other nodes, which would ask again and again."""

import asyncio
from contextlib import suppress
from time import time_ns


class Arrivals:
    """A number that changes whenever a file or a piece has come. One event loop uses it."""

    def __init__(self) -> None:
        # So that a number that an earlier process told is not met again.
        self.number = time_ns() // 1_000_000
        self._next = asyncio.Event()

    def came(self) -> None:
        """Note that there is more."""
        self.number += 1
        self._next.set()
        self._next = asyncio.Event()

    async def past(self, number: int, most: float) -> None:
        """Wait until it is another number, for ``most`` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                while self.number == number:
                    await self._next.wait()
