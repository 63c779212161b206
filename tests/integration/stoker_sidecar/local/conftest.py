"""An S3 server with the objects of a test module, and `stoker mount` of them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3 import S3Server
from tests.support.stoker_mount import StokerMount


@pytest.fixture(scope="module")
def server(s3: S3Server, request: pytest.FixtureRequest) -> S3Server:
    """Serve the module's ``FILES``, contents by key."""
    asyncio.run(s3.bucket(request.module.FILES, "data"))
    return s3


@pytest.fixture
def stoker(server: S3Server) -> Iterator[StokerMount]:
    with StokerMount(server) as made:
        yield made


@pytest.fixture
def fuse_for_all() -> Iterator[None]:
    """Give all users the FUSE device, as distributions do."""
    device = Path("/dev/fuse")
    before = device.stat().st_mode
    device.chmod(0o666)
    yield
    device.chmod(before)
