"""The event loops of store tests: workers make the GETs on libuv's, the fetcher lists on asyncio's."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
_ASYNCIO: Mapping[str, LoopFactory] = {"asyncio": asyncio.new_event_loop}
_LIBUV: Mapping[str, LoopFactory] = {"libuv": uvloop.new_event_loop}
# By module. The rest test functions that work on either, and run on asyncio's.
_LOOPS: Mapping[str, Mapping[str, LoopFactory]] = {
    "test_s3_faults": {**_LIBUV, **_ASYNCIO},
    "test_large_bodies": {**_LIBUV, **_ASYNCIO},
    "test_small_bodies": {**_ASYNCIO, **_LIBUV},
}


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """See pytest-asyncio."""
    return _LOOPS.get(item.path.stem, _ASYNCIO)
