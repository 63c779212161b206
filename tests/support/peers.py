"""The Secret by which sidecars know each other, as the operator makes it."""

from datetime import UTC, datetime

from stoker_kube.api import Kube
from stoker_operator.webhook.certs import PeerMaterial, renewed_peer
from stoker_operator.webhook.peer_certificate import PeerCertificate
from stoker_sidecar.wire.peer_tls import PeerTls


async def make_peer_secret(kube: Kube, namespace: str) -> None:
    """Make it, unless it is there."""
    await PeerCertificate(kube, namespace, lambda: datetime.now(UTC)).ensure()


def peer_tls(before: PeerMaterial | None = None) -> PeerTls:
    """Return what a sidecar would read from a Secret of its own."""
    return as_read(renewed_peer(before, datetime.now(UTC)))


def as_read(material: PeerMaterial) -> PeerTls:
    """Return what a sidecar reads."""
    return PeerTls(material.authorities.decode(), material.certificate.decode(), material.key.decode())
