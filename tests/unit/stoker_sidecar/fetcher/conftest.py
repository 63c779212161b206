"""The divided version that several files of this folder begin with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.divided_version import DividedVersion, open_divided
from tests.support.left_pieces import Left


@pytest.fixture
async def version(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DividedVersion]:
    """Open a node that knows a version of the files that the test's own file names as ``CONTENT``."""
    async with open_divided(tmp_path, request.module.CONTENT) as opened:
        yield opened


@pytest.fixture
def left(version: DividedVersion) -> Left:
    """Return what is left of it for the first of two nodes; its file names ``MODELS`` as ``CONTENT``."""
    return Left(version)
