"""Shared by the tests of agents: an API server with a Secret, and a folder for sockets."""

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_kube.resources import SECRETS
from tests.fakes.kube import FakeKube


@pytest.fixture
async def kube() -> FakeKube:
    fake = FakeKube()
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in keys.items()}
    await fake.create(SECRETS, {"metadata": {"name": "s3", "namespace": "vision"}, "data": data})
    return fake


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder with a short path: names of unix sockets have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="sk") as short:
        yield Path(short)
