"""Shared by the tests of a node's cache."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.cache_node import CacheNodeUnderTest, open_cache_node


@pytest.fixture
async def cache_node(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    async with open_cache_node(tmp_path / "cache") as found:
        yield found
