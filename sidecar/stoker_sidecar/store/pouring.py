"""Pours a body that arrives on the event loop: what is small at once, what is large in threads."""

from collections.abc import AsyncIterator, Iterable
from functools import partial

from stoker_sidecar.store.base import SMALL, Pour, Write
from stoker_sidecar.threads import in_thread

# Bytes that are held before a thread writes them: 32 bodies at a time hold 32 MiB at most.
STEP = 1024 * 1024


def in_chunks(chunks: AsyncIterator[bytes]) -> Pour:
    """For a body that comes so."""
    return partial(_pour, chunks)


async def _pour(chunks: AsyncIterator[bytes], write: Write) -> None:
    held: list[bytes] = []
    size, most = 0, SMALL  # the first bytes sooner, since a reader may wait for just those
    async for data in chunks:
        held.append(data)
        size += len(data)
        if size > most:
            await in_thread(_give, held, write)
            held, size, most = [], 0, STEP
    if most == SMALL:
        _give(held, write)
    else:
        await in_thread(_give, held, write)


def _give(held: Iterable[bytes], write: Write) -> None:
    for data in held:
        write(data)
