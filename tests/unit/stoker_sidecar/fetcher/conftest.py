"""The divided version that several files of this folder begin with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.divided_version import DividedVersion, open_divided


@pytest.fixture
async def version(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DividedVersion]:
    """Open a node that knows a version of the files that the test's own file names as ``CONTENT``."""
    async with open_divided(tmp_path, request.module.CONTENT) as opened:
        yield opened
