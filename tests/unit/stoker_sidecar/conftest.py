"""Fixtures for tests of a node's cache."""

import os
from collections.abc import AsyncIterator, Callable
from errno import EIO
from pathlib import Path
from typing import Any

import pytest

from tests.support.cache_node import CacheNodeUnderTest, open_cache_node


@pytest.fixture
async def cache_node(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    async with open_cache_node(tmp_path / "cache") as found:
        yield found


@pytest.fixture
def refusing_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Return a function that makes stat fail on a folder and its content from then on, like XFS after a shutdown."""

    def refuse(folder: Path) -> None:
        stat = os.stat

        def failing(path: int | str | bytes | os.PathLike[str], **how: Any) -> os.stat_result:
            if not isinstance(path, int) and Path(os.fsdecode(path)).is_relative_to(folder):
                raise OSError(EIO, os.strerror(EIO), path)
            return stat(path, **how)

        monkeypatch.setattr(os, "stat", failing)

    return refuse
