"""Stoker's own certificate authorities: made, checked and renewed by pure functions of the clock.

One is the webhook's. The sidecars have another, by which they know each other.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stoker_api.names import PEER_NAME
from stoker_operator.errors import CertificateError

CA_LIFE = timedelta(days=365)
CERTIFICATE_LIFE = timedelta(days=90)
PEER_LIFE = timedelta(days=365)
_RENEW_AT = 2 / 3  # share of the life: a third is left to notice that renewing fails
_CLOCK_SKEW = timedelta(minutes=5)  # nodes' clocks differ; a certificate is valid a little before it was made
_MOST_AUTHORITIES = 2  # the present one and the one before it, for certificates that other replicas still serve


@dataclass(frozen=True)
class KeyMaterial:
    """Certificates and keys, all PEM. ``authorities`` is a bundle, the newest first, whose key is ``authority_key``."""

    authorities: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class PeerMaterial:
    """What every sidecar has, PEM. ``authorities`` is a bundle, the newest first; their keys are kept by nobody."""

    authorities: bytes
    certificate: bytes
    key: bytes


def renewed_peer(present: PeerMaterial | None, now: datetime) -> PeerMaterial:
    """Return what the sidecars should have: ``present`` while it is good, else a new certificate by a new authority.

    The last authority stays in the bundle, for sidecars that do not have the new certificate yet.
    """
    kept: list[x509.Certificate] = []
    if present is not None:
        with suppress(ValueError, TypeError):
            serialization.load_pem_private_key(present.key, password=None)
            certificate = x509.load_pem_x509_certificate(present.certificate)
            kept = x509.load_pem_x509_certificates(present.authorities)
            if not _is_due(certificate, now) and _hosts(certificate) == {PEER_NAME}:
                return present
    authority, authority_key = _make_authority(now, "stoker-peer-ca", PEER_LIFE)
    both = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    certificate_pem, key = _issue(authority, authority_key, (PEER_NAME,), now, PEER_LIFE, both)
    bundle = [authority, *(one for one in kept if one.not_valid_after_utc > now)][:_MOST_AUTHORITIES]
    return PeerMaterial(b"".join(map(_pem, bundle)), certificate_pem, key)


def make(hosts: Sequence[str], now: datetime) -> KeyMaterial:
    """Return a new authority and a certificate for ``hosts`` (DNS names or IP addresses)."""
    authority, authority_key = _make_authority(now)
    certificate, key = _issue(authority, authority_key, hosts, now)
    return KeyMaterial(_pem(authority), _key_pem(authority_key), certificate, key)


def renewed(material: KeyMaterial, hosts: Sequence[str], now: datetime) -> KeyMaterial:
    """Renew what is due: the certificate, or the authority as well; ``material`` itself when nothing is.

    The old authority stays in the bundle while it is valid. Raises CertificateError when ``material`` is unreadable.
    """
    authorities, authority_key, certificate = _load(material)
    if _is_due(authorities[0], now):
        fresh = make(hosts, now)
        kept = [one for one in authorities if one.not_valid_after_utc > now][: _MOST_AUTHORITIES - 1]
        return replace(fresh, authorities=fresh.authorities + b"".join(map(_pem, kept)))
    if not _is_due(certificate, now) and _hosts(certificate) == set(hosts) and _signed(certificate, authorities[0]):
        return material
    pair = _issue(authorities[0], authority_key, hosts, now)
    return replace(material, certificate=pair[0], key=pair[1])


def _make_authority(
    now: datetime, called: str = "stoker-webhook-ca", life: timedelta = CA_LIFE
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    # A serial in the name keeps two generations apart: verifiers look authorities up by name.
    name = _name(f"{called}-{x509.random_serial_number():x}"[:40])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key.public_key(), now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.sign(key, hashes.SHA256()), key


def _issue(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    now: datetime,
    life: timedelta = CERTIFICATE_LIFE,
    usages: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH,),
) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = _builder(_name("stoker"), authority.subject, key.public_key(), now, life)
    builder = builder.add_extension(x509.SubjectAlternativeName(map(_general_name, hosts)), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(issuer, critical=False)
    return _pem(builder.sign(authority_key, hashes.SHA256())), _key_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + life)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts(certificate: x509.Certificate) -> set[str]:
    try:
        names: Iterable[x509.GeneralName] = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return set()
    return {str(one.value) for one in names}


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    return certificate.issuer == authority.subject


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return not start <= now < start + (end - start) * _RENEW_AT


def _load(
    material: KeyMaterial,
) -> tuple[list[x509.Certificate], ec.EllipticCurvePrivateKey, x509.Certificate]:
    try:
        authorities = x509.load_pem_x509_certificates(material.authorities)
        authority_key = serialization.load_pem_private_key(material.authority_key, password=None)
        certificate = x509.load_pem_x509_certificate(material.certificate)
        serialization.load_pem_private_key(material.key, password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"the webhook's certificates do not parse: {error}") from error
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the key of the webhook's authority is not an elliptic-curve key")
    return authorities, authority_key, certificate


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
