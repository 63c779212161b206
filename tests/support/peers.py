"""Certificates of nodes, as signed by the operator and used by agents."""

from datetime import UTC, datetime

from stoker_kube.api import Kube
from stoker_kube.resources import NODE_CACHES
from stoker_operator.webhook.peer_authority import PeerAuthority, PeerSigner, renewed_authority
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity
from stoker_sidecar.wire.config.peer_tls import PeerTls
from tests.support.waiting import eventually_async


def new_authority() -> PeerAuthority:
    """Make a CA."""
    return renewed_authority(None, datetime.now(UTC))


async def certify(kube: Kube, node: str, authority: PeerAuthority) -> None:
    """Sign a certificate for the key that a sidecar reports, as the operator does."""

    async def told() -> str | None:
        key: str | None = (await kube.get(NODE_CACHES, node)).get("status", {}).get("peerKey")
        return key

    key = await eventually_async(told, 20.0)
    assert key is not None
    signed = PeerSigner(authority).sign(node, key, datetime.now(UTC))
    body = {"metadata": {"name": node}, "spec": {"peer": signed.model_dump(by_alias=True)}}
    await kube.apply(NODE_CACHES, body, field_manager="peers")


def peer_tls(node: str = "n", authority: PeerAuthority | None = None) -> PeerTls:
    """Return a node's TLS identity. Without ``authority``, use a new CA."""
    identity = PeerIdentity()
    signed = PeerSigner(authority or new_authority()).sign(node, identity.public_key, datetime.now(UTC))
    found = identity.certified(signed)
    assert found is not None
    return found
