"""Data that S3 clients share: botocore's descriptions, loaded before the fetcher forks."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession
from botocore import UNSIGNED
from botocore.exceptions import MetadataRetrievalError
from botocore.loaders import JSONFileLoader

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.store.buckets import s3_clients
from stoker_sidecar.store.buckets.s3_boto import S3Boto
from stoker_sidecar.store.buckets.s3_clients import Identity, open_client, open_identity
from stoker_sidecar.store.buckets.s3_descriptions import read_descriptions
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_requests import AccessKeys
from stoker_sidecar.wire.credentials import AmbientCredentials, AnonymousCredentials, Credentials, StaticCredentials
from tests.fakes.volumes import Clock
from tests.support.waiting import eventually

LARGE = 50_000  # bytes; one of 7 KB takes half a millisecond


async def test_the_first_client_reads_no_large_description(monkeypatch: pytest.MonkeyPatch) -> None:
    read_descriptions()
    read: list[Path] = []
    load = JSONFileLoader.load_file

    def noted(self: JSONFileLoader, path: str) -> Any:
        found = load(self, path)
        if found is not None:
            read.extend(file for file in Path(path).parent.glob(f"{Path(path).name}.json*"))
        return found

    monkeypatch.setattr(JSONFileLoader, "load_file", noted)
    source = Source.model_validate({"uri": "s3://bucket/p/", "endpoint": "http://127.0.0.1:9", "region": "us-east-1"})
    settings = ConnectionSettings()
    async with AsyncExitStack() as stack:
        identity = await open_identity(source, StaticCredentials("key", "secret", ""), settings)
        await open_client(source, identity, settings, stack)
    assert [file for file in read if file.stat().st_size > LARGE] == []


class LateSession:
    """A session whose credentials arrive after ``misses`` attempts. The first attempt raises an error."""

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.looks = 0

    async def get_credentials(self) -> AioCredentials | None:
        self.looks += 1
        if self.looks == 1:
            raise MetadataRetrievalError(error_msg="slow")
        return AioCredentials("key", "secret") if self.looks > self.misses else None


def _identity(session: LateSession, credentials: Credentials, clock: Clock) -> Identity:
    return Identity(cast("AioSession", session), signed=False, credentials=credentials, clock=clock)


async def test_credentials_of_the_node_that_come_late_are_taken() -> None:
    session, clock = LateSession(misses=2), Clock()
    identity = _identity(session, AmbientCredentials(), clock)
    found = []
    for _ in range(4):
        clock.now += 10.0
        found.append(await identity.keys())
        await eventually(lambda: not identity._looking or identity._looking.done())
    assert found == [None, None, None, AccessKeys("key", "secret", "")]


async def test_a_node_without_credentials_is_not_asked_at_every_request() -> None:
    session, clock = LateSession(misses=9), Clock()
    identity = _identity(session, AmbientCredentials(), clock)
    for _ in range(20):
        clock.now += 1.0
        await identity.keys()
        await asyncio.sleep(0)
    assert session.looks == 2
    await identity.aclose()


async def test_given_credentials_are_never_replaced_by_the_nodes() -> None:
    session, clock = LateSession(misses=0), Clock()
    identity = _identity(session, StaticCredentials("key", "secret", ""), clock)
    clock.now += 100.0
    identity.look_again()
    await asyncio.sleep(0)
    assert session.looks == 0


async def test_listings_are_signed_once_credentials_have_come() -> None:
    source = Source.model_validate({"uri": "s3://bucket/p/", "endpoint": "http://127.0.0.1:9", "region": "us-east-1"})
    session = AioSession()
    identity = Identity(session, signed=False, credentials=AmbientCredentials())
    boto = S3Boto(source, "bucket", identity, ConnectionSettings())
    anonymous = vars((await boto._opened()).meta.config)["signature_version"]
    session.set_credentials("key", "secret")
    identity.signed = True
    signed = vars((await boto._opened()).meta.config)["signature_version"]
    await boto.aclose()
    assert (anonymous is UNSIGNED, signed is UNSIGNED) == (True, False)


async def test_however_many_begin_at_once_the_loop_has_a_turn_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    made = s3_clients._new_session
    story: list[str] = []

    def noted() -> AioSession:
        story.append("session")
        return made()

    async def heart() -> None:
        while True:
            story.append("beat")
            await asyncio.sleep(0)

    monkeypatch.setattr(s3_clients, "_new_session", noted)
    source = Source.model_validate({"uri": "s3://bucket/p/", "endpoint": "http://127.0.0.1:9", "region": "us-east-1"})
    beating = asyncio.create_task(heart())
    await asyncio.gather(*(open_identity(source, AnonymousCredentials(), ConnectionSettings()) for _ in range(8)))
    beating.cancel()
    assert story.count("session") == 8
    assert ("session", "session") not in itertools.pairwise(story)
