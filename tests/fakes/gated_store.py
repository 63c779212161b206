"""An object store in memory whose answers a test releases one by one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from stoker_sidecar.store.base import Body
from tests.fakes.object_store import MemoryStore
from tests.support.waiting import eventually


@dataclass
class GatedStore(MemoryStore):
    """A store whose answers wait for their release."""

    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    waiting: int = 0

    @asynccontextmanager
    async def get_range(self, path: str, offset: int, length: int, **more: Any) -> AsyncIterator[Body]:
        """Answer after the release."""
        self.waiting += 1
        try:
            await self.gate.acquire()
        finally:
            self.waiting -= 1
        async with super().get_range(path, offset, length, **more) as body:
            yield body

    async def let_go(self, count: int) -> None:
        """Release some answers, and wait until they are sent."""
        came = len(self.gets)
        for _ in range(count):
            self.gate.release()
        await eventually(lambda: len(self.gets) == came + count)

    def let_all_go(self) -> None:
        """Release all answers from now on."""
        for _ in range(1000):
            self.gate.release()
