"""Small files that one other node is asked for by one request: each is waited for, and proven, by itself."""

import asyncio
from collections.abc import Sequence

from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Neighbours


class FileBatch:
    """Files that ``peer`` is asked for at once, as long as somebody waits for one of them.

    ``turns``: waited for before the node is asked.
    """

    def __init__(self, neighbours: Neighbours, peer: str, asks: Sequence[Ask], turns: asyncio.Semaphore) -> None:
        loop = asyncio.get_running_loop()
        self._coming: list[asyncio.Future[bytes | Came]] = [loop.create_future() for _ in asks]
        self._left = set(range(len(asks)))
        self._task = asyncio.create_task(self._bring(neighbours, peer, asks, turns))

    async def of(self, place: int) -> bytes | Came:
        """Wait for a file; return all of it, or what became of it."""
        return await self._coming[place]

    def leave(self, place: int) -> None:
        """Wait no more for a file, which may have come."""
        self._left.discard(place)
        if not self._left:
            self._task.cancel()

    async def _bring(self, neighbours: Neighbours, peer: str, asks: Sequence[Ask], turns: asyncio.Semaphore) -> None:
        came = Came.USELESS  # it ended by itself
        try:
            async with turns:
                came = await neighbours.bring_files(peer, asks, self._give)
        except RuntimeError:  # the pass is over, and with it what asks
            pass
        finally:
            for place, coming in enumerate(self._coming):
                if not coming.done():
                    self._set(place, came)
                    came = Came.CUT if came is Came.NOTHING else came

    def _give(self, place: int, content: bytes | None) -> None:
        self._set(place, Came.ABSENT if content is None else content)

    def _set(self, place: int, found: bytes | Came) -> None:
        if not self._coming[place].done():  # nobody waits any more
            self._coming[place].set_result(found)
