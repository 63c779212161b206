"""An S3 server with the objects that a module of tests names, and `stoker mount` of them."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.s3 import S3Server, running_s3
from tests.support.stoker_mount import StokerMount


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Serve the module's ``FILES``, contents by key."""
    with running_s3(tmp_path_factory.mktemp("s3")) as running:
        asyncio.run(_fill(running, request.module.FILES))
        yield running


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


async def _fill(server: S3Server, files: Mapping[str, bytes]) -> None:
    async with server.client() as client:
        await client.create_bucket(Bucket="data")
        for key, body in files.items():
            await client.put_object(Bucket="data", Key=key, Body=body)
