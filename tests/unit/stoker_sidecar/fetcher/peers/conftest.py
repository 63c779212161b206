"""The version shared by several test files of this folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.divided_version import DividedVersion, open_divided
from tests.support.left_pieces import Left


@pytest.fixture
async def version(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DividedVersion]:
    """Open a node with a version of the files in ``CONTENT`` of the test module."""
    async with open_divided(tmp_path, request.module.CONTENT) as opened:
        yield opened


@pytest.fixture
def left(version: DividedVersion) -> Left:
    """Return the remaining files for the first of two nodes. ``CONTENT`` of the test module is ``MODELS``."""
    return Left(version)
