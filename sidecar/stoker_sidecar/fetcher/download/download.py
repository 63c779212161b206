"""One piece of a version on its way: what its readers wait for, and what it was reckoned as."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from stoker_sidecar.fetcher.download.parts import PartFile
from stoker_sidecar.fetcher.download.pipeline import Slot


@dataclass(eq=False)
class Download:
    """One piece on its way.

    ``ahead``: its bytes, when no reader had asked for it; ``guess``: its weight to the prefetcher.

    ``reserved``: bytes of a small file that is to stay; ``reached``: offset up to which its bytes can be read, in the
    part ``into``.
    """

    slot: Slot
    ahead: int = 0
    guess: int = 0
    reserved: int = 0
    reached: int = 0
    into: PartFile | None = None
    task: "asyncio.Task[None]" = field(init=False)
    moved: asyncio.Event = field(default_factory=asyncio.Event)


Action = Callable[[Download], Coroutine[None, None, None]]
