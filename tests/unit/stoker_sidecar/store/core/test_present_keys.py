"""The next rejected request picks up keys that were replaced in files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import AccessDenied, InvalidCredentials, SourceError
from stoker_sidecar.store.buckets.s3_clients import Identity, open_identity
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_requests import AccessKeys, with_present_keys
from stoker_sidecar.wire.credentials import AmbientCredentials, StaticCredentials
from tests.fakes.volumes import Clock

SOURCE = Source.model_validate({"uri": "s3://bucket/p/", "endpoint": "http://127.0.0.1:9", "region": "us-east-1"})
ONE, TWO = AccessKeys("one", "one-secret", ""), AccessKeys("two", "two-secret", "")


def write(file: Path, keys: AccessKeys) -> None:
    """Replace a credentials file by a rename, like Kubernetes and careful programs."""
    draft = file.with_suffix(".new")
    lines = f"aws_access_key_id = {keys.access_key_id}\naws_secret_access_key = {keys.secret_access_key}\n"
    draft.write_text(f"[default]\n{lines}")
    draft.rename(file)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path / "credentials"


async def opened() -> Identity:
    return await open_identity(SOURCE, AmbientCredentials(), ConnectionSettings())


async def test_keys_that_were_replaced_in_the_file_are_taken(file: Path) -> None:
    write(file, ONE)
    identity = await opened()
    assert await identity.keys() == ONE
    write(file, TWO)
    assert await identity.renew(ONE)
    assert await identity.keys() == TWO


async def test_the_same_keys_are_no_renewal_and_are_looked_for_once_in_a_while(file: Path) -> None:
    write(file, ONE)
    identity, clock = await opened(), Clock()
    identity.clock = clock
    assert not await identity.renew(ONE)
    write(file, TWO)
    assert not await identity.renew(ONE)  # the last check was a moment ago
    clock.now += 10.0
    assert await identity.renew(ONE)


def remove(file: Path) -> None:
    file.unlink()


def damage(file: Path) -> None:
    file.write_text("[default\n")


@pytest.mark.expected_logs("cannot be renewed now")
@pytest.mark.parametrize("spoil", [remove, damage])
async def test_a_file_that_cannot_be_read_for_a_moment_leaves_the_keys(
    file: Path, spoil: Callable[[Path], None]
) -> None:
    write(file, ONE)
    identity = await opened()
    spoil(file)
    assert not await identity.renew(ONE)
    assert await identity.keys() == ONE


async def test_keys_of_a_secret_are_never_looked_for_elsewhere(file: Path) -> None:
    write(file, TWO)
    identity = await open_identity(SOURCE, StaticCredentials("one", "one-secret"), ConnectionSettings())
    assert not await identity.renew(ONE)
    assert await identity.keys() == ONE


class Server:
    """A server that accepts one pair of keys. ``held``: the keys of the client."""

    def __init__(self, held: AccessKeys, found: AccessKeys, error: SourceError) -> None:
        self.held, self.found, self.error = held, found, error
        self.requests = 0

    async def keys(self) -> AccessKeys:
        return self.held

    async def renew(self, refused: AccessKeys | None) -> bool:
        self.held = self.found
        return self.held != refused

    async def request(self) -> str:
        self.requests += 1
        if self.held != TWO:
            raise self.error
        return "bytes"


async def test_a_refused_request_is_sent_again_with_the_new_keys() -> None:
    server = Server(ONE, TWO, InvalidCredentials("ExpiredToken"))
    assert await with_present_keys(server.request, server.keys, server.renew) == "bytes"
    assert server.requests == 2


@pytest.mark.parametrize(
    ("found", "error"),
    [(ONE, InvalidCredentials("ExpiredToken")), (TWO, AccessDenied("AccessDenied"))],
    ids=["no other keys", "not the keys"],
)
async def test_it_is_sent_once_where_other_keys_cannot_help(found: AccessKeys, error: SourceError) -> None:
    server = Server(ONE, found, error)
    with pytest.raises(type(error)):
        await with_present_keys(server.request, server.keys, server.renew)
    assert server.requests == 1
