"""The authority that signs a certificate for each node, by which nodes know each other. Pure functions of the clock.

A node creates its key and reports the public half. Only the operator has the authority's key.
"""

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from stoker_api.node_caches.peers import MOST_PEER_KEY, PEER_NAME, PeerCertificate, peer_host, peer_uri
from stoker_operator.webhook.certs import MOST_AUTHORITIES, is_due, key_pem, make_authority, pem, sign

AUTHORITY_LIFE = timedelta(days=365)
CERTIFICATE_LIFE = timedelta(hours=24)  # the longest use of a captured key
_BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True)
class PeerAuthority:
    """PEM. ``authorities``: a bundle, the newest first; ``key``: of the newest."""

    authorities: bytes
    key: bytes


@dataclass(frozen=True)
class Issued:
    """A certificate in use. ``renew``: when to renew it."""

    certificate: str
    renew: datetime


def renewed_authority(present: PeerAuthority | None, now: datetime) -> PeerAuthority:
    """Return ``present`` while it is valid, else a new authority, followed by the last one in the bundle.

    The last one stays for nodes without a certificate from the new one.
    """
    kept = _readable(present)
    if present is not None and kept and not is_due(kept[0], now):
        return present
    authority, key = make_authority(now, "stoker-peer-ca", AUTHORITY_LIFE)
    bundle = [authority, *(one for one in kept if one.not_valid_after_utc > now)][:MOST_AUTHORITIES]
    return PeerAuthority(b"".join(map(pem, bundle)), key_pem(key))


class PeerSigner:
    """Signs with one authority. Raises ValueError or TypeError for an unusable one."""

    def __init__(self, authority: PeerAuthority) -> None:
        key = serialization.load_pem_private_key(authority.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("the key of the peers' authority is not an elliptic-curve key")
        self.authority = authority
        self._key = key
        self._newest = x509.load_pem_x509_certificates(authority.authorities)[0]

    def sign(self, node: str, key: str, now: datetime) -> PeerCertificate:
        """Sign a certificate for a node's public key. Raises ValueError for an invalid key.

        Its names depend only on ``node``.
        """
        names = (x509.UniformResourceIdentifier(peer_uri(node)), x509.DNSName(peer_host(node)), x509.DNSName(PEER_NAME))
        signed = sign(self._newest, self._key, parsed_key(key), names, _BOTH, now, CERTIFICATE_LIFE)
        return PeerCertificate(certificate=signed.decode(), authorities=self.authority.authorities.decode())

    def sign_client(self, name: x509.GeneralName, key: ec.EllipticCurvePublicKey, now: datetime) -> bytes:
        """Sign a client certificate, PEM: its owner can query nodes but not serve as one."""
        usage = (ExtendedKeyUsageOID.CLIENT_AUTH,)
        return sign(self._newest, self._key, key, (name,), usage, now, CERTIFICATE_LIFE)

    def current(self, there: PeerCertificate, node: str, key: str, now: datetime) -> Issued | None:
        """Return a node's certificate if it is valid; None: sign a new one. Raises ValueError for an invalid key."""
        wanted = parsed_key(key)
        if there.authorities.encode() != self.authority.authorities:
            return None
        try:
            found = x509.load_pem_x509_certificate(there.certificate.encode())
            found.verify_directly_issued_by(self._newest)
        except (ValueError, TypeError, InvalidSignature):
            return None
        if found.public_key() != wanted or not _names(found, node) or is_due(found, now):
            return None
        start, end = found.not_valid_before_utc, found.not_valid_after_utc
        return Issued(there.certificate, start + (end - start) * 2 / 3)


def parsed_key(text: str) -> ec.EllipticCurvePublicKey:
    """Parse a node's public key: base64 of the DER form of a P-256 key. Raises ValueError."""
    if len(text) > MOST_PEER_KEY:
        raise ValueError(f"the public key has {len(text)} characters: {MOST_PEER_KEY} at most")
    try:
        key = serialization.load_der_public_key(base64.b64decode(text, validate=True))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the public key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("the public key is not one of P-256")
    return key


def _names(certificate: x509.Certificate, node: str) -> bool:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return names.get_values_for_type(x509.UniformResourceIdentifier) == [peer_uri(node)]


def _readable(present: PeerAuthority | None) -> list[x509.Certificate]:
    """Return the bundle of an authority with a usable key; empty if anything is wrong with it."""
    if present is None:
        return []
    try:
        PeerSigner(present)
        return x509.load_pem_x509_certificates(present.authorities)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return []
