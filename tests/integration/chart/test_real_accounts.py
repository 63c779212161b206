"""Operator and sidecar with the tokens of their own accounts, on a real API server with the chart's rights."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from cryptography import x509

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.peers import peer_uri
from stoker_kube.api import Kube, Object
from stoker_kube.client import KubeClient
from stoker_kube.errors import Forbidden, Invalid, KubeError
from stoker_kube.informer import Informer
from stoker_kube.resources import DATASETS, MUTATING_WEBHOOKS, NODE_CACHES, SECRETS, SERVICE_ACCOUNTS
from stoker_kube.watch import EventType, watch
from stoker_operator.core.plans.admission import parse_dataset
from stoker_operator.mirror.state import ClusterState
from stoker_operator.processes.leader import Leader
from stoker_operator.webhook.calling_path import CallingPath
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity
from stoker_sidecar.agent.kube.node_account import NodeAccount
from stoker_sidecar.wire.config.peer_tls import PeerTls
from tests.fakes.sidecar import FakeSidecar, settled
from tests.support.apiserver import ApiServer
from tests.support.asking_as import Api, token_of_sidecar
from tests.support.chart import NAMESPACE
from tests.support.waiting import all_sockets_closed, eventually_async

SECONDS = 90.0


async def known() -> None:
    """Mark all Datasets as known: the test makes its own after the start."""


@dataclass
class World:
    """Clients of an administrator, and of the operator's account."""

    admin: KubeClient
    operator: Kube
    tasks: list[asyncio.Task[Any]]

    async def add_node(self, name: str) -> FakeSidecar:
        """Add a node with a scripted sidecar. Return the sidecar."""
        sidecar = FakeSidecar(self.admin, name, NAMESPACE)
        sidecar.share = 1.0
        await sidecar.join(test=name)
        self.tasks.append(asyncio.create_task(sidecar.run()))
        return sidecar

    async def warm_dataset(self, namespace: str, node: str) -> None:
        """Add a Dataset with a Secret, which only that node may read. Wait until it is there."""
        source = {"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}}
        spec = {"source": source, "cache": {"nodeSelector": {"test": node}}}
        await self.admin.create(DATASETS, {"metadata": {"name": "digits", "namespace": namespace}, "spec": spec})

        async def is_warm() -> bool | None:
            dataset = Dataset.model_validate(await self.admin.get(DATASETS, "digits", namespace))
            return dataset.status.phase is Phase.READY or None

        await eventually_async(is_warm, SECONDS)

    async def read(self, node: str, namespace: str) -> Object:
        """Read the Secret as the agent of a node does."""
        sidecar = self.admin.as_bearer(await token_of_sidecar(self.admin, node))
        account = NodeAccount(sidecar, NAMESPACE, node, time.monotonic, lambda: datetime.now(UTC))
        return await account.ask(lambda kube: kube.get(SECRETS, "keys", namespace))


@pytest.fixture
async def world(api: Api, apiserver: ApiServer) -> AsyncIterator[World]:
    """Let the operator lead."""
    async with await apiserver.client() as admin:
        body: Object = {"spec": {}}
        answer = await admin.create_subresource(SERVICE_ACCOUNTS, "stoker-operator", NAMESPACE, "token", body)
        operator = admin.as_bearer(answer["status"]["token"])
        state, stop = ClusterState(NAMESPACE), asyncio.Event()
        datasets: Informer[Any] = Informer(watch(operator, DATASETS), parse_dataset, state.datasets.feed)
        made = World(admin, operator, [asyncio.create_task(datasets.run())])
        await datasets.wait_synced()
        leading = asyncio.create_task(Leader(operator, state).run(known, stop))
        yield made
        stop.set()
        await leading
        for task in made.tasks:
            await settled(task)
    await all_sockets_closed()


async def test_the_node_of_a_dataset_reads_its_secret_and_another_does_not(
    world: World, apiserver: ApiServer, namespace: str
) -> None:
    apiserver.create(SECRETS, "keys", namespace)
    holder, other = (f"real-{which}-{uuid4().hex[:8]}" for which in ("holder", "other"))
    for node in (holder, other):
        await world.add_node(node)
    await world.warm_dataset(namespace, holder)

    async def is_given() -> Object | None:
        try:
            return await world.read(holder, namespace)
        except Forbidden:  # the API server's authorizer watches roles
            return None

    assert (await eventually_async(is_given, SECONDS))["metadata"]["name"] == "keys"
    with pytest.raises(Forbidden, match=f"{names.node_accounts_namespace(NAMESPACE)}:{other}"):
        await world.read(other, namespace)
    await world.admin.delete(DATASETS, "digits", namespace)

    async def is_taken_away() -> bool | None:
        try:
            await world.read(holder, namespace)
        except Forbidden:
            return True
        return None

    await eventually_async(is_taken_away, SECONDS)


async def test_a_watch_goes_on_after_the_right_to_it_is_gone(apiserver: ApiServer, namespace: str) -> None:
    """Why nodes read Secrets and do not watch them (ADR 8): a watch would deliver keys after the right is revoked."""
    rule = ("--verb=get,list,watch", "--resource=secrets", "--resource-name=keys")
    for words in (
        ("secret", "generic", "keys"),
        ("serviceaccount", "watcher"),
        ("role", "watcher", *rule),
        ("rolebinding", "watcher", "--role=watcher", f"--serviceaccount={namespace}:watcher"),
    ):
        apiserver.kubectl("create", *words, "-n", namespace)
    async with await apiserver.client() as admin:
        answer = await admin.create_subresource(SERVICE_ACCOUNTS, "watcher", namespace, "token", {"spec": {}})
        watcher = admin.as_bearer(answer["status"]["token"])

        async def may_read() -> bool:
            try:
                await watcher.get(SECRETS, "keys", namespace)
            except Forbidden:
                return False
            return True

        async def may_not_read() -> bool:
            return not await may_read()

        await eventually_async(may_read, SECONDS)
        only = "metadata.name=keys"
        # It stops at the first error, because a watch that was cut could not be resumed.
        events = watch(watcher, SECRETS, namespace=namespace, field_selector=only, give_up_on=(KubeError,))
        assert [(await anext(events)).type for _ in range(2)] == [EventType.ADDED, EventType.SYNCED]
        coming = asyncio.ensure_future(anext(events))
        await admin.patch(SECRETS, "keys", {"stringData": {"key": "first"}}, namespace)
        assert (await asyncio.wait_for(coming, SECONDS)).object["data"] == {"key": "Zmlyc3Q="}
        apiserver.kubectl("delete", "rolebinding", "watcher", "-n", namespace)
        await eventually_async(may_not_read, SECONDS)
        await admin.patch(SECRETS, "keys", {"stringData": {"key": "second"}}, namespace)
        assert (await asyncio.wait_for(anext(events), SECONDS)).object["data"] == {"key": "c2Vjb25k"}
        await events.aclose()


async def test_a_node_gets_a_certificate_for_its_own_key_and_takes_no_other_ones(world: World) -> None:
    """Actions with only the chart's rights, and those of a compromised node."""
    sidecar = await world.add_node("taken")
    await world.add_node("victim")

    async def both_are_there() -> bool:
        return {"taken", "victim"} <= {one["metadata"]["name"] for one in (await world.admin.list(NODE_CACHES)).items}

    await eventually_async(both_are_there, SECONDS)
    identity, taken = PeerIdentity(), world.admin.as_bearer(await token_of_sidecar(world.admin, "taken"))
    told = {"status": {"peerKey": identity.public_key}}
    with pytest.raises(Invalid, match="may not write NodeCache victim"):
        await taken.patch(NODE_CACHES, "victim", told, subresource="status")
    forged = {"spec": {"peer": {"certificate": "x", "authorities": "y"}}}
    with pytest.raises((Forbidden, Invalid)):
        await taken.patch(NODE_CACHES, "taken", forged)
    with pytest.raises(Forbidden):
        await taken.get(SECRETS, names.PEER_AUTHORITY_SECRET, NAMESPACE)
    sidecar.peer_key = identity.public_key  # its later reports must not withdraw the key
    await taken.patch(NODE_CACHES, "taken", told, subresource="status")

    async def signed() -> PeerTls | None:
        cache = NodeCache.model_validate(await world.admin.get(NODE_CACHES, "taken"))
        return identity.certified(cache.spec.peer)

    found = await eventually_async(signed, SECONDS)
    certificate = x509.load_pem_x509_certificate(found.certificate.encode())
    names_in_it = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names_in_it.get_values_for_type(x509.UniformResourceIdentifier) == [peer_uri("taken")]
    await world.admin.patch(NODE_CACHES, "taken", {"metadata": {"annotations": {names.ANNOTATION_PEERS: "Off"}}})

    async def revoked() -> bool:
        return await signed() is None

    await eventually_async(revoked, SECONDS)


async def test_the_operator_gives_the_webhook_its_path(world: World) -> None:
    # With a separate name and an unused kind, so that pods of other tests are not blocked.
    rule = {"apiGroups": ["none.example"], "apiVersions": ["v1"], "resources": ["nothing"], "operations": ["CREATE"]}
    client = {"service": {"name": "stoker-webhook", "namespace": NAMESPACE}}
    webhook = {"name": "pods.stoker.dev", "clientConfig": client, "rules": [rule]}
    webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    await world.admin.create(MUTATING_WEBHOOKS, {"metadata": {"name": "stoker"}, "webhooks": [webhook]})
    path = CallingPath(world.operator, "stoker")
    await path.ensure()
    written = await world.admin.get(MUTATING_WEBHOOKS, "stoker")
    await world.admin.delete(MUTATING_WEBHOOKS, "stoker")
    assert await path.is_called_by(written["webhooks"][0]["clientConfig"]["service"]["path"])
    assert not await path.is_called_by("/mutate")
