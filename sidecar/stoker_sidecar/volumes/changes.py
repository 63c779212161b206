"""Lets any number of tasks wait for the next change of something."""

import asyncio


class Changes:
    """``mark()`` wakes everyone who waits; a token taken before a look makes sure that no change is missed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def mark(self) -> None:
        """Something changed."""
        self._next.set()
        self._next = asyncio.Event()

    def token(self) -> asyncio.Event:
        """Set at the next change after now."""
        return self._next

    async def wait(self, token: asyncio.Event | None = None, timeout: float | None = None) -> bool:
        """Wait for the change that ``token`` stands for (default: the next), at most ``timeout`` seconds; whether it came."""
        try:
            async with asyncio.timeout(timeout):
                await (token or self._next).wait()
        except TimeoutError:
            return False
        return True
