"""Shared by the sidecar's integration tests: an S3 server for each module."""

from collections.abc import Iterator

import pytest

from tests.support.s3 import S3Server, running_s3


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run an S3 server, without a bucket."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server
