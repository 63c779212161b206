"""Credentials are read when needed and again when they may have changed. They survive an outage of the API server."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from stoker_api.datasets.dataset_source import Credentials, SecretReference, Source
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodeError
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_kube.api import Object
from stoker_kube.errors import Forbidden, Unavailable
from stoker_kube.resources import SECRETS, SERVICE_ACCOUNTS
from stoker_sidecar.agent.core.grants import HostFolder, NodeGrants
from stoker_sidecar.agent.kube.credentials import READ_AGAIN_SECONDS, READ_SOON_SECONDS, CredentialReader
from stoker_sidecar.agent.kube.node_account import NodeAccount
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.wire.credentials import (
    AmbientCredentials,
    AnonymousCredentials,
    FolderGrant,
    StaticCredentials,
    UnusableCredentials,
    WebIdentityCredentials,
)
from tests.fakes.kube import FakeKube

START = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = Credentials(secret_ref=SecretReference(name="s3"))
WEB_IDENTITY = Credentials(service_account="trainer")


class Bench:
    """A reader over an API server in memory, with manual clocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.kube = FakeKube()
        self.plan = NodePlan()
        self.now = START
        self.tokens = 0
        self.installed_in = ""
        self.grants(NodeGrants())
        self.kube.subresource_answers[("serviceaccounts", "token")] = self._token

    def grants(self, grants: NodeGrants) -> None:
        account = NodeAccount(self.kube, self.installed_in, "node-1", lambda: self.seconds, lambda: self.now)
        self.reader = CredentialReader(account, self.plan, grants, lambda: self.seconds, lambda: self.now)

    def want(
        self,
        credentials: Credentials | None,
        error: NodeError | None = None,
        uri: str = "s3://bucket/digits/",
        anonymous: bool = False,
    ) -> None:
        source = Source(uri=uri, credentials=credentials)
        dataset = NodeDataset(namespace="vision", name="digits", uid="u1", source=source, anonymous=anonymous)
        row = NodeDatasetStatus(namespace="vision", name="digits", uid="u1", error=error)
        spec, status = NodeCacheSpec(datasets=(dataset,)), NodeCacheStatus(datasets=(row,))
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="node-1"), spec=spec, status=status))

    async def put_secret(self, key: str) -> None:
        data = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": key}
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
        body: Object = {"metadata": {"name": "s3", "namespace": "vision"}, "data": encoded}
        await self.kube.apply(SECRETS, body, field_manager="test")

    async def put_service_account(self) -> None:
        annotations = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/reader"}
        account = {"metadata": {"name": "trainer", "namespace": "vision", "annotations": annotations}}
        await self.kube.create(SERVICE_ACCOUNTS, account)
        self.want(WEB_IDENTITY)

    async def read(self, after: float = 0.0) -> object:
        self.seconds += after
        self.now += timedelta(seconds=after)
        await self.reader.read_due()
        return self.plan.credentials.get("u1")

    def _token(self, name: str, namespace: str, body: Object) -> Object:
        self.tokens += 1
        expires = self.now + timedelta(seconds=body["spec"]["expirationSeconds"])
        audience = ",".join(body["spec"].get("audiences", ["api"]))
        token = f"{name}-{audience}-{self.tokens}"
        return {"status": {"token": token, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("patterns", [("vision",), ("other", "vis*"), ("*",)])
async def test_no_credentials_are_the_node_s_own_where_the_namespace_is_granted_them(
    bench: Bench, patterns: tuple[str, ...]
) -> None:
    bench.grants(NodeGrants(ambient=patterns))
    bench.want(None)
    assert await bench.read() == AmbientCredentials()


@pytest.mark.parametrize("patterns", [(), ("other",), ("visions", "Vision")])
async def test_without_that_grant_no_credentials_are_none(bench: Bench, patterns: tuple[str, ...]) -> None:
    bench.grants(NodeGrants(ambient=patterns))
    bench.want(None)
    read = await bench.read()
    assert isinstance(read, AnonymousCredentials)
    assert "namespace vision" in read.hint
    assert "sidecar.ambientCredentials" in read.hint


async def test_what_a_class_withholds_is_withheld_at_once_whatever_the_chart_grants(bench: Bench) -> None:
    bench.grants(NodeGrants(ambient=("vision",)))
    bench.want(None)
    assert await bench.read() == AmbientCredentials()
    bench.want(None, anonymous=True)
    read = await bench.read()
    assert isinstance(read, AnonymousCredentials)
    assert "DatasetClass" in read.hint


@pytest.mark.parametrize("credentials", [None, SECRET])
async def test_a_folder_is_read_by_its_namespaces_grants_whatever_credentials_it_names(
    bench: Bench, credentials: Credentials | None
) -> None:
    folders = (HostFolder("/mnt/a", ("vision",)), HostFolder("/mnt/b", ("other",)), HostFolder("/mnt/c", ("v*",)))
    bench.grants(NodeGrants(host_folders=folders))
    bench.want(credentials, uri="file:///mnt/a/digits")
    assert await bench.read() == FolderGrant(("/mnt/a", "/mnt/c"))


async def test_a_source_that_moves_from_a_bucket_to_a_folder_gets_other_credentials(bench: Bench) -> None:
    bench.want(None)
    await bench.read()
    bench.want(None, uri="file:///mnt/a")
    assert await bench.read() == FolderGrant()


async def test_a_secret_gives_its_keys(bench: Bench) -> None:
    await bench.put_secret("one")
    bench.want(SECRET)
    assert await bench.read() == StaticCredentials("id", "one")


async def test_a_rotated_secret_is_taken_over_within_a_minute(bench: Bench) -> None:
    await bench.put_secret("one")
    bench.want(SECRET)
    await bench.read()
    await bench.put_secret("two")
    assert await bench.read(after=READ_AGAIN_SECONDS - 1) == StaticCredentials("id", "one")
    assert await bench.read(after=1) == StaticCredentials("id", "two")


async def test_datasets_that_name_one_secret_read_it_once(bench: Bench) -> None:
    await bench.put_secret("one")
    uids = [f"u{number}" for number in range(1, 10)]
    rows = [
        NodeDataset(namespace="vision", name=uid, uid=uid, source=Source(uri="s3://b", credentials=SECRET))
        for uid in uids
    ]
    bench.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="node-1"), spec=NodeCacheSpec(datasets=tuple(rows))))
    for after, key in ((0.0, "one"), (READ_AGAIN_SECONDS, "two")):
        await bench.put_secret(key)
        await bench.read(after)
        assert {uid: bench.plan.credentials[uid] for uid in uids} == dict.fromkeys(uids, StaticCredentials("id", key))
    assert bench.kube.requests.count(("get", "secrets")) == 2


async def test_in_a_large_cluster_a_secret_is_read_less_often(bench: Bench) -> None:
    await bench.put_secret("one")
    bench.want(SECRET)
    bench.plan.report_seconds = 256
    await bench.read()
    await bench.put_secret("two")
    assert await bench.read(after=500.0) == StaticCredentials("id", "one")
    assert await bench.read(after=12.0) == StaticCredentials("id", "two")


async def test_a_rotated_secret_is_taken_over_although_the_clock_was_put_back(bench: Bench) -> None:
    await bench.put_secret("one")
    bench.want(SECRET)
    await bench.read()
    await bench.put_secret("two")
    bench.now -= timedelta(days=300)
    assert await bench.read(after=READ_AGAIN_SECONDS) == StaticCredentials("id", "two")


async def test_a_secret_that_the_store_refuses_is_read_again_soon(bench: Bench) -> None:
    await bench.put_secret("wrong")
    bench.want(SECRET)
    await bench.read()
    bench.want(SECRET, NodeError(reason=Reason.INVALID_CREDENTIALS, message="No such key."))
    await bench.put_secret("right")
    assert await bench.read(after=READ_SOON_SECONDS) == StaticCredentials("id", "right")


async def test_a_missing_secret_is_taken_over_soon_after_it_was_made(bench: Bench) -> None:
    bench.want(SECRET)
    missing = await bench.read()
    assert isinstance(missing, UnusableCredentials)
    assert missing.reason is Reason.SECRET_NOT_FOUND
    await bench.put_secret("one")
    assert await bench.read(after=READ_SOON_SECONDS) == StaticCredentials("id", "one")


async def test_another_secret_is_read_at_once(bench: Bench) -> None:
    bench.want(None)
    await bench.read()
    await bench.put_secret("one")
    bench.want(SECRET)
    assert await bench.read() == StaticCredentials("id", "one")


async def test_a_secret_that_may_not_be_read_says_who_grants_it(bench: Bench) -> None:
    bench.want(SECRET)
    bench.kube.fail_next("get", SECRETS, Forbidden(403, "Forbidden", "secrets is forbidden"))
    refused = await bench.read()
    assert isinstance(refused, UnusableCredentials)
    assert "the operator grants it with a RoleBinding stoker-credentials-* in vision" in refused.message


@pytest.mark.expected_logs("cannot be read: Connection refused")
async def test_an_outage_leaves_the_keys_that_were_read(bench: Bench) -> None:
    await bench.put_secret("one")
    bench.want(SECRET)
    await bench.read()
    bench.kube.outage = Unavailable(0, "Unreachable", "Connection refused.")
    assert await bench.read(after=READ_AGAIN_SECONDS) == StaticCredentials("id", "one")


async def test_web_identity_asks_for_a_token_and_renews_it_in_time(bench: Bench) -> None:
    await bench.put_service_account()
    first = await bench.read()
    assert first == WebIdentityCredentials(
        "arn:aws:iam::1:role/reader",
        "trainer-sts.amazonaws.com-1",
        "2026-01-01T01:00:00Z",
        session="vision.digits@node-1",
    )
    assert await bench.read(after=47 * 60) == first
    renewed = await bench.read(after=60)
    assert isinstance(renewed, WebIdentityCredentials)
    assert renewed.token == "trainer-sts.amazonaws.com-2"


async def test_a_token_is_renewed_in_time_although_the_clock_was_put_back(bench: Bench) -> None:
    await bench.put_service_account()
    await bench.read()
    bench.now -= timedelta(days=300)
    renewed = await bench.read(after=48 * 60)
    assert isinstance(renewed, WebIdentityCredentials)
    assert renewed.token == "trainer-sts.amazonaws.com-2"


async def test_a_missing_service_account_is_named(bench: Bench) -> None:
    bench.want(WEB_IDENTITY)
    missing = await bench.read()
    assert isinstance(missing, UnusableCredentials)
    assert missing.reason is Reason.SERVICE_ACCOUNT_NOT_FOUND
    assert "ServiceAccount vision/trainer does not exist" in missing.message


async def with_account(bench: Bench) -> None:
    """Give the node its account, and a Secret to read."""
    bench.installed_in = "stoker"
    bench.grants(NodeGrants())
    await bench.kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": "node-1", "namespace": "stoker-nodes"}})
    await bench.put_secret("one")
    bench.want(SECRET)


async def test_a_secret_is_read_in_the_name_of_the_node(bench: Bench) -> None:
    await with_account(bench)
    assert await bench.read() == StaticCredentials("id", "one")
    assert bench.kube.bearers == [("node-1-api-1", "get", "secrets")]


async def test_tokens_of_named_accounts_are_asked_for_in_the_name_of_the_node(bench: Bench) -> None:
    await with_account(bench)
    await bench.put_service_account()
    read = await bench.read()
    assert isinstance(read, WebIdentityCredentials)
    assert read.token == "trainer-sts.amazonaws.com-2"
    assert [row[1:] for row in bench.kube.bearers] == [("get", "serviceaccounts"), ("create", "serviceaccounts")]


async def test_one_token_of_the_node_serves_until_it_is_old(bench: Bench) -> None:
    await with_account(bench)
    for after in (0.0, READ_AGAIN_SECONDS, 3600 * 0.8):
        await bench.read(after)
    assert [row[0] for row in bench.kube.bearers] == ["node-1-api-1", "node-1-api-1", "node-1-api-2"]


async def test_a_token_whose_account_was_made_anew_is_replaced_at_once(bench: Bench) -> None:
    await with_account(bench)
    await bench.read()
    bench.kube.ended_tokens.add("node-1-api-1")
    assert await bench.read(READ_AGAIN_SECONDS) == StaticCredentials("id", "one")
    assert bench.kube.bearers[-1][0] == "node-1-api-2"


async def test_without_an_account_of_the_node_the_pods_own_asks(bench: Bench) -> None:
    bench.installed_in = "stoker"
    bench.grants(NodeGrants())
    await bench.put_secret("one")
    bench.want(SECRET)
    assert await bench.read() == StaticCredentials("id", "one")
    assert bench.kube.bearers == []
