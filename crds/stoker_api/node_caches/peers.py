"""The certificate that a node shows its peers, and the names in it."""

from hashlib import sha256
from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model

# A name in all node certificates, for content that a digest proves from any node: manifests.
PEER_NAME = "stoker-peer"
_URI = "spiffe://stoker.dev/node/"
OPERATOR_URI = "spiffe://stoker.dev/operator"  # in the certificate of the operator, which reads figures from nodes
MOST_PEER_KEY = 200  # characters; a P-256 key has 124


class PeerCertificate(Model):
    """A node's certificate for its peers, and the authorities that it trusts: public, in PEM."""

    certificate: Annotated[
        str, Field(description="The node's certificate, for the key in status.peerKey.", max_length=8192)
    ] = ""
    authorities: Annotated[
        str, Field(description="The authorities that sign node certificates, the newest first.", max_length=16384)
    ] = ""


def peer_uri(node: str) -> str:
    """Return the URI that names a node in its certificate."""
    return _URI + node


def node_of_uri(uri: str) -> str | None:
    """Return the node that a URI names, or None."""
    return uri.removeprefix(_URI) if uri.startswith(_URI) and uri != _URI else None


def peer_host(node: str) -> str:
    """Return the DNS name in the certificate of a node. It works for any node name, also one like an address."""
    return f"{sha256(node.encode()).hexdigest()[:40]}.{PEER_NAME}"
