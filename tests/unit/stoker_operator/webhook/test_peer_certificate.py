"""The certificate by which sidecars know each other: made once, renewed in time, by whichever replica comes first."""

import base64
from datetime import UTC, datetime, timedelta

from cryptography import x509

from stoker_api.names import PEER_NAME, PEER_SECRET
from stoker_kube.errors import AlreadyExists, Conflict
from stoker_kube.resources import SECRETS
from stoker_operator.webhook.certs import PEER_LIFE, PeerMaterial, renewed_peer
from stoker_operator.webhook.peer_certificate import PeerCertificate
from tests.fakes.kube import FakeKube

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def authorities(material: PeerMaterial) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material.authorities)


def test_it_serves_and_asks_in_one_name_and_its_authoritys_key_is_nobodys() -> None:
    made = renewed_peer(None, NOW)
    certificate = x509.load_pem_x509_certificate(made.certificate)
    assert certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    ) == [PEER_NAME]
    assert len(list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)) == 2
    assert made.key.count(b"PRIVATE KEY") == 2  # one key: its first line and its last


def test_it_stays_while_it_is_good() -> None:
    made = renewed_peer(None, NOW)
    assert renewed_peer(made, NOW + PEER_LIFE / 2) is made


def test_a_new_one_comes_in_time_and_the_old_one_is_believed_meanwhile() -> None:
    made = renewed_peer(None, NOW)
    later = renewed_peer(made, NOW + PEER_LIFE * 0.7)
    assert later.certificate != made.certificate
    assert [one.subject for one in authorities(later)][1:] == [one.subject for one in authorities(made)]
    assert len(authorities(renewed_peer(later, NOW + PEER_LIFE * 1.5))) == 2


def test_what_does_not_parse_is_made_anew() -> None:
    made = renewed_peer(PeerMaterial(b"", b"none", b"none"), NOW)
    assert len(authorities(made)) == 1


async def secret(kube: FakeKube) -> dict[str, bytes]:
    data = (await kube.get(SECRETS, PEER_SECRET, "stoker"))["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


async def test_the_first_replica_makes_the_secret_and_others_leave_it() -> None:
    kube = FakeKube()
    for _ in range(2):
        await PeerCertificate(kube, "stoker", lambda: NOW).ensure()
    assert (await secret(kube)).keys() == {"ca.crt", "tls.crt", "tls.key"}
    assert [one for one in kube.requests if one[0] in ("create", "patch")] == [("create", "secrets")]


async def test_what_is_due_is_renewed() -> None:
    kube = FakeKube()
    await PeerCertificate(kube, "stoker", lambda: NOW).ensure()
    before = await secret(kube)
    await PeerCertificate(kube, "stoker", lambda: NOW + PEER_LIFE - timedelta(days=1)).ensure()
    assert (await secret(kube))["tls.crt"] != before["tls.crt"]


async def test_two_replicas_that_are_as_fast_agree() -> None:
    kube = FakeKube()
    kube.fail_next("create", SECRETS, AlreadyExists(409, "AlreadyExists", "there"))
    await PeerCertificate(kube, "stoker", lambda: NOW).ensure()
    await PeerCertificate(kube, "stoker", lambda: NOW).ensure()
    kube.fail_next("patch", SECRETS, Conflict(409, "Conflict", "changed"))
    await PeerCertificate(kube, "stoker", lambda: NOW + PEER_LIFE).ensure()
    assert (await secret(kube)).keys() == {"ca.crt", "tls.crt", "tls.key"}
