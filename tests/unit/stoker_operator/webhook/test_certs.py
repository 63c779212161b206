"""The life cycle of the webhook's certificates, on a manual clock."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from stoker_operator.errors import CertificateError
from stoker_operator.webhook.certs import CA_LIFE, CERTIFICATE_LIFE, KeyMaterial, expiry, make, renewed
from stoker_operator.webhook.rotation import load_certificate, new_tls_context

NOW = datetime(2026, 11, 21, tzinfo=UTC)
HOSTS = ("stoker-webhook.stoker.svc", "127.0.0.1")


def authorities(material: KeyMaterial) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material.authorities)


def handshake(trusted: bytes, served: KeyMaterial, host: str) -> None:
    """Make a TLS handshake in memory. Raises ssl.SSLError if the client does not trust the server."""
    tls = new_tls_context()
    load_certificate(tls, served.certificate, served.key)
    client_context = ssl.create_default_context(cadata=trusted.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = tls.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):  # TLS 1.3 needs two flights per side
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", HOSTS)
def test_a_client_with_the_bundle_trusts_the_certificate(host: str) -> None:
    material = make(HOSTS, datetime.now(UTC))
    handshake(material.authorities, material, host)


def test_a_client_does_not_trust_another_host() -> None:
    material = make(HOSTS, datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(material.authorities, material, "elsewhere.svc")


def test_nothing_is_renewed_before_two_thirds_of_the_life() -> None:
    material = make(HOSTS, NOW)
    assert renewed(material, HOSTS, NOW + CERTIFICATE_LIFE * 0.6) is material


def test_the_certificate_is_renewed_under_the_same_authority() -> None:
    material = make(HOSTS, NOW)
    later = renewed(material, HOSTS, NOW + CERTIFICATE_LIFE * 0.7)
    assert later.authorities == material.authorities
    assert later.certificate != material.certificate


def test_a_renewed_authority_keeps_the_old_one_in_the_bundle() -> None:
    material = make(HOSTS, NOW)
    later = renewed(material, HOSTS, NOW + CA_LIFE * 0.7)
    assert len(authorities(later)) == 2
    assert authorities(later)[1] == authorities(material)[0]


def test_during_a_change_of_authority_old_and_new_certificates_are_trusted() -> None:
    now = datetime.now(UTC)
    due = now - CA_LIFE * (2 / 3) - timedelta(hours=12)  # the authority is due since half a day
    old = renewed(make(HOSTS, due), HOSTS, now - timedelta(days=1))
    new = renewed(old, HOSTS, now)
    assert len(authorities(old)) < len(authorities(new))
    handshake(new.authorities, old, HOSTS[0])
    handshake(new.authorities, new, HOSTS[0])


def test_an_expired_authority_leaves_the_bundle() -> None:
    later = renewed(make(HOSTS, NOW), HOSTS, NOW + CA_LIFE + timedelta(days=1))
    assert len(authorities(later)) == 1


def test_other_host_names_need_another_certificate() -> None:
    material = make(HOSTS, NOW)
    assert renewed(material, ("other.svc",), NOW).certificate != material.certificate


def test_unreadable_material_is_an_error() -> None:
    with pytest.raises(CertificateError):
        renewed(KeyMaterial(b"x", b"x", b"x", b"x"), HOSTS, NOW)


def test_a_key_of_another_certificate_is_refused() -> None:
    one, two = make(HOSTS, NOW), make(HOSTS, NOW)
    with pytest.raises(CertificateError, match="cannot be used"):
        load_certificate(new_tls_context(), one.certificate, two.key)


def test_a_damaged_certificate_has_no_expiry() -> None:
    with pytest.raises(CertificateError, match="cannot be parsed"):
        expiry(b"damaged")
