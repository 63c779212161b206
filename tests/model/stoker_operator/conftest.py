"""Async tests of this folder run in virtual time."""

import asyncio
from collections.abc import Callable, Mapping

from tests.support.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the event loop of pytest-asyncio's tests and fixtures."""
    return {"virtual": VirtualLoop}
