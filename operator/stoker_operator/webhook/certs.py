"""The webhook's certificate authority: created, checked and renewed by pure functions of the clock."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stoker_operator.errors import CertificateError

CA_LIFE = timedelta(days=365)
CERTIFICATE_LIFE = timedelta(days=90)
_RENEW_AT = 2 / 3  # share of the life: a third is left to notice failed renewals
_CLOCK_SKEW = timedelta(minutes=5)  # nodes' clocks differ: a certificate is valid from a little before its creation
MOST_AUTHORITIES = 2  # the present one and its predecessor, for certificates that other replicas still serve


@dataclass(frozen=True)
class KeyMaterial:
    """Certificates and keys, all PEM. ``authorities`` is a bundle, the newest first; ``authority_key`` is its key."""

    authorities: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


def make(hosts: Sequence[str], now: datetime) -> KeyMaterial:
    """Return a new authority and a certificate for ``hosts`` (DNS names or IP addresses)."""
    authority, authority_key = make_authority(now)
    certificate, key = _issue(authority, authority_key, hosts, now)
    return KeyMaterial(pem(authority), key_pem(authority_key), certificate, key)


def renewed(material: KeyMaterial, hosts: Sequence[str], now: datetime) -> KeyMaterial:
    """Renew the certificate, or the authority as well, if due; otherwise return ``material`` itself.

    The old authority stays in the bundle while it is valid. Raises CertificateError if ``material`` is unreadable.
    """
    authorities, authority_key, certificate = _load(material)
    if is_due(authorities[0], now):
        fresh = make(hosts, now)
        kept = [one for one in authorities if one.not_valid_after_utc > now][: MOST_AUTHORITIES - 1]
        return replace(fresh, authorities=fresh.authorities + b"".join(map(pem, kept)))
    if not is_due(certificate, now) and _hosts(certificate) == set(hosts) and is_signed_by(certificate, authorities[0]):
        return material
    pair = _issue(authorities[0], authority_key, hosts, now)
    return replace(material, certificate=pair[0], key=pair[1])


def make_authority(
    now: datetime, called: str = "stoker-webhook-ca", life: timedelta = CA_LIFE
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a new authority that signs end certificates only, and its key."""
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
    authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, hosts: Sequence[str], now: datetime
) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    served = (ExtendedKeyUsageOID.SERVER_AUTH,)
    names = [_general_name(host) for host in hosts]
    return sign(authority, authority_key, key.public_key(), names, served, now, CERTIFICATE_LIFE), key_pem(key)


def sign(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePublicKey,
    names: Sequence[x509.GeneralName],
    usages: Sequence[x509.ObjectIdentifier],
    now: datetime,
    life: timedelta,
) -> bytes:
    """Sign an end certificate for a public key; return it as PEM."""
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = _builder(_name("stoker"), authority.subject, key, now, life)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(issuer, critical=False)
    return pem(builder.sign(authority_key, hashes.SHA256()))


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


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return True if a certificate names an authority as its issuer."""
    return certificate.issuer == authority.subject


def expiry(chain: bytes) -> float:
    """Return when a PEM chain's first certificate expires, in seconds since the epoch. Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificate(chain).not_valid_after_utc.timestamp()
    except ValueError as error:
        raise CertificateError(f"the certificate cannot be parsed: {error}") from error


def is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Return True if two thirds of the certificate's life are over, or it is not valid yet."""
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


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
