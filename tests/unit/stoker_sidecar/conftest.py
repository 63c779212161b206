"""Shared by the tests of a node's cache."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.cache_node import Subject, cache_node


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[Subject]:
    async with cache_node(tmp_path / "cache") as found:
        yield found
