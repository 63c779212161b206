"""The operator signs the key in a node's NodeCache, and removes certificates of revoked nodes."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from stoker_api import names
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_api.node_caches.peers import PeerCertificate
from stoker_kube.errors import NotFound
from stoker_kube.events import EventRecorder
from stoker_kube.resources import NODE_CACHES, SECRETS
from stoker_operator.core.views.node_cache_reader import NodeCacheReader
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.peer_certificates import PeerCertificates, certified
from stoker_operator.webhook.peer_authority import AUTHORITY_LIFE, CERTIFICATE_LIFE
from stoker_operator.writes.writer import FIELD_MANAGER, Writer
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity
from stoker_sidecar.wire.config.peer_tls import PeerTls
from tests.fakes.kube import FakeKube
from tests.support.present import present

START = datetime(2026, 11, 29, tzinfo=UTC)


class World:
    """NodeCaches as written by sidecars and the operator, and the operator's passes."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.state = ClusterState("stoker")
        self.now = START
        self.passes = self.replica()

    def replica(self) -> PeerCertificates:
        """Return the reconciler of another process of the operator."""
        recorder = EventRecorder(self.kube, "test")
        return PeerCertificates(Writer(self.kube), self.state, recorder, self._seconds)

    def _seconds(self) -> float:
        return self.now.timestamp()

    async def tell(self, node: str, key: str, **annotations: str) -> None:
        """Let a sidecar publish its key, and an administrator write annotations."""
        body = {"metadata": {"name": node, "annotations": annotations}, "status": {"peerKey": key}}
        spec = NodeCacheSpec().wire()
        await self.kube.apply(NODE_CACHES, {"metadata": {"name": node}, "spec": spec}, field_manager=FIELD_MANAGER)
        await self.kube.patch(NODE_CACHES, node, {"metadata": body["metadata"]})
        await self.kube.patch(NODE_CACHES, node, {"status": body["status"]}, subresource="status")
        await self.look(node)

    async def look(self, node: str) -> None:
        """Update the mirror."""
        self.state.node_caches.put(node, NodeCacheReader().view(await self.kube.get(NODE_CACHES, node)))

    async def after_pass(self, node: str = "n") -> PeerCertificate:
        """Run a pass. Return the certificate in the node's spec."""
        await self.passes.reconcile()
        await self.passes.work.settled()
        await self.look(node)
        cache = present(self.state.node_caches.get(node))
        return cache.spec.peer

    def writes(self) -> int:
        """Count writes of certificates in NodeCaches."""
        return sum(request == ("apply", "nodecaches") for request in self.kube.requests)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_node_gets_a_certificate_for_the_key_that_it_told(world: World) -> None:
    identity = PeerIdentity()
    await world.tell("n", identity.public_key)
    assert identity.certified(await world.after_pass()) is not None


async def test_it_stays_until_it_is_due_also_for_the_next_replica(world: World) -> None:
    await world.tell("n", PeerIdentity().public_key)
    first, written = await world.after_pass(), world.writes()
    world.passes = world.replica()
    assert (await world.after_pass(), world.writes()) == (first, written)
    world.now += CERTIFICATE_LIFE * 0.7
    assert await world.after_pass() != first


async def test_a_sidecar_that_started_again_gets_one_for_its_new_key(world: World) -> None:
    again = PeerIdentity()
    for key in (PeerIdentity().public_key, again.public_key):
        await world.tell("n", key)
        last = await world.after_pass()
    assert again.certified(last) is not None


@pytest.mark.parametrize("key", ["", "none"])
async def test_a_node_without_a_key_gets_none(world: World, key: str) -> None:
    await world.tell("n", key)
    assert await world.after_pass() == PeerCertificate()


async def test_a_node_that_tells_the_key_of_another_one_gets_a_certificate_that_it_cannot_use(world: World) -> None:
    victim, taken = PeerIdentity(), PeerIdentity()
    await world.tell("victim", victim.public_key)
    await world.tell("taken", victim.public_key)
    assert taken.certified(await world.after_pass("taken")) is None


async def test_a_revoked_node_loses_its_certificate_and_gets_no_other(world: World) -> None:
    key = PeerIdentity().public_key
    await world.tell("n", key)
    await world.after_pass()
    await world.tell("n", key, **{names.ANNOTATION_PEERS: "Off"})
    assert await world.after_pass() == PeerCertificate()
    await world.tell("n", PeerIdentity().public_key, **{names.ANNOTATION_PEERS: "Off"})
    assert await world.after_pass() == PeerCertificate()


async def test_what_plans_say_stays(world: World) -> None:
    await world.tell("n", PeerIdentity().public_key)
    await world.after_pass()
    assert (await world.kube.get(NODE_CACHES, "n"))["spec"]["datasets"] == []


async def test_the_authoritys_key_is_in_its_secret_alone(world: World) -> None:
    await world.tell("n", PeerIdentity().public_key)
    peer = await world.after_pass()
    data = (await world.kube.get(SECRETS, names.PEER_AUTHORITY_SECRET, "stoker"))["data"]
    assert data.keys() == {"ca.crt", "ca.key"}
    assert peer.authorities.encode() == base64.b64decode(data["ca.crt"])
    with pytest.raises(NotFound):
        await world.kube.get(SECRETS, names.EARLIER_PEER_SECRET, "stoker")


@pytest.mark.parametrize("deleted", [True, False])
async def test_another_authority_signs_all_again(world: World, deleted: bool) -> None:
    identity = PeerIdentity()
    await world.tell("n", identity.public_key)
    first = await world.after_pass()
    if deleted:
        await world.kube.delete(SECRETS, names.PEER_AUTHORITY_SECRET, "stoker")
        world.now += timedelta(seconds=31)
    else:
        world.now += AUTHORITY_LIFE * 0.7
    second = await world.after_pass()
    assert (first.authorities in second.authorities) is not deleted
    assert isinstance(identity.certified(second), PeerTls)


async def test_figures_of_a_node_wake_nobody(world: World) -> None:
    await world.tell("n", PeerIdentity().public_key)
    before = world.state.node_caches.get("n")
    await world.kube.patch(NODE_CACHES, "n", {"status": {"usedBytes": 7}}, subresource="status")
    await world.look("n")
    assert not certified(before, world.state.node_caches.get("n"))
    assert certified(None, before)
