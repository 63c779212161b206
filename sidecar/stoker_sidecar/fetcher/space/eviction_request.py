"""The request that a dataset drop one of its versions: asked by another dataset, done by its own loop, so that the two never cross."""

import asyncio
from dataclasses import dataclass, field

# Seconds until the asker goes on without: the dataset may be busy with a slow disk.
_PATIENCE = 60.0


@dataclass
class Departure:
    """``why``: a sentence for people."""

    digest: str
    why: str
    _outcome: "asyncio.Future[bool]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def done(self) -> None:
        """It was dropped."""
        self._settle(True)

    def refuse(self) -> None:
        """It is in use, or gone already."""
        self._settle(False)

    async def outcome(self) -> bool:
        """Whether it was dropped; False when that took too long."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._outcome
        except TimeoutError:
            return False

    def _settle(self, dropped: bool) -> None:
        if not self._outcome.done():
            self._outcome.set_result(dropped)
