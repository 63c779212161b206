"""Certificates of nodes: their names follow from the node that sends the key, regardless of its content."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.node_caches.peers import PEER_NAME, PeerCertificate, node_of_uri, peer_host, peer_uri
from stoker_operator.webhook.peer_authority import (
    AUTHORITY_LIFE,
    CERTIFICATE_LIFE,
    PeerAuthority,
    PeerSigner,
    parsed_key,
    renewed_authority,
)
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity

NOW = datetime(2026, 11, 29, tzinfo=UTC)
AUTHORITY = renewed_authority(None, NOW)
SIGNER = PeerSigner(AUTHORITY)
KEY, OTHER_KEY = PeerIdentity().public_key, PeerIdentity().public_key


def _der(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return base64.b64encode(key.public_bytes(serialization.Encoding.DER, form)).decode()


def _names(peer: PeerCertificate) -> x509.SubjectAlternativeName:
    certificate = x509.load_pem_x509_certificate(peer.certificate.encode())
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


@pytest.mark.parametrize("node", ["node-1", "10.0.0.5", "a" * 253, "gpu.rack-7.example.com"])
def test_a_certificate_names_its_node_and_no_other(node: str) -> None:
    names = _names(SIGNER.sign(node, KEY, NOW))
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [peer_uri(node)]
    assert names.get_values_for_type(x509.DNSName) == [peer_host(node), PEER_NAME]
    assert node_of_uri(peer_uri(node)) == node


def test_a_certificate_lives_for_a_day_and_signs_nothing() -> None:
    certificate = x509.load_pem_x509_certificate(SIGNER.sign("n", KEY, NOW).certificate.encode())
    assert certificate.not_valid_after_utc == NOW + CERTIFICATE_LIFE == NOW + timedelta(days=1)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert len(list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)) == 2


def test_what_is_given_to_a_node_has_no_secret_in_it() -> None:
    peer = SIGNER.sign("n", KEY, NOW)
    assert "PRIVATE" not in peer.certificate + peer.authorities


@pytest.mark.parametrize(
    ("node", "key", "later"),
    [("other", KEY, timedelta()), ("n", OTHER_KEY, timedelta()), ("n", KEY, CERTIFICATE_LIFE * 0.7)],
    ids=["another node's", "for another key", "due"],
)
def test_a_certificate_that_is_not_this_nodes_is_replaced(node: str, key: str, later: timedelta) -> None:
    assert SIGNER.current(SIGNER.sign("n", KEY, NOW), "n", KEY, NOW) is not None
    assert SIGNER.current(SIGNER.sign("n", KEY, NOW), node, key, NOW + later) is None


def test_a_certificate_of_another_authority_is_replaced() -> None:
    other = PeerSigner(renewed_authority(None, NOW)).sign("n", KEY, NOW)
    forged = other.model_copy(update={"authorities": AUTHORITY.authorities.decode()})
    assert [SIGNER.current(one, "n", KEY, NOW) for one in (other, forged, PeerCertificate())] == [None, None, None]


_RSA = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()


@pytest.mark.parametrize(
    "key",
    [
        "",
        "x",
        "é",
        "AAAA",
        base64.b64encode(bytes(range(91))).decode(),
        "A" * 4000,
        _der(ec.generate_private_key(ec.SECP384R1()).public_key()),
        _der(_RSA),
    ],
)
def test_what_is_no_key_of_a_node_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="public key"):
        SIGNER.sign("n", key, NOW)


@given(st.text(max_size=250) | st.binary(max_size=150).map(lambda data: base64.b64encode(data).decode()))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    try:
        parsed_key(text)
    except ValueError:
        return


def test_an_authority_stays_while_it_is_good() -> None:
    assert renewed_authority(AUTHORITY, NOW + AUTHORITY_LIFE / 2) is AUTHORITY


def test_a_new_authority_comes_in_time_and_the_last_one_is_believed_until_then() -> None:
    later = renewed_authority(AUTHORITY, NOW + AUTHORITY_LIFE * 0.7)
    first, *rest = x509.load_pem_x509_certificates(later.authorities)
    assert rest == x509.load_pem_x509_certificates(AUTHORITY.authorities)
    assert first not in rest


@pytest.mark.parametrize(
    "broken",
    [PeerAuthority(b"", b"none"), PeerAuthority(AUTHORITY.authorities, b"none"), PeerAuthority(b"", AUTHORITY.key)],
)
def test_an_authority_that_does_not_parse_is_made_again(broken: PeerAuthority) -> None:
    assert len(x509.load_pem_x509_certificates(renewed_authority(broken, NOW).authorities)) == 1
