"""A version with files of special sizes, mounted in each kind, once for all tests of calls."""

import os
import random
from collections.abc import Iterator

import pytest

from tests.support.mount_kinds import KINDS, Shown, shown

MIB = 2**20


def _files() -> dict[str, bytes]:
    noise = random.Random(9)
    return {
        "data/large.bin": noise.randbytes(3 * MIB + 17),
        "data/small.txt": b"one line\n",
        "data/empty": b"",
        # Zeros that a careless copier would take for a hole.
        "data/zeros.bin": bytes(MIB) + noise.randbytes(MIB) + bytes(MIB),
        "code/run.sh": b"#!/bin/sh\necho ran\n",
    }


@pytest.fixture(scope="session", params=KINDS)
def mounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Show the version in one kind of mount."""
    with shown(request.param, tmp_path_factory.mktemp(request.param), _files()) as version:
        yield version


@pytest.fixture
def truth(mounted: Shown) -> bytes:
    """Return the content of the large file."""
    return mounted.files["data/large.bin"]


@pytest.fixture
def fd(mounted: Shown) -> Iterator[int]:
    """Open the large file for reading, with none of its pages in memory."""
    opened = os.open(mounted.path / "data/large.bin", os.O_RDONLY)
    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
    yield opened
    os.close(opened)
