"""Secret, caBundle and the served certificate stay consistent, with one replica or two."""

import base64
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from stoker_kube.resources import MUTATING_WEBHOOKS, SECRETS, Kind
from stoker_operator.errors import CertificateError
from stoker_operator.processes.webhook_process import publish_bundle
from stoker_operator.webhook.calling_path import WEBHOOK_KINDS
from stoker_operator.webhook.certs import CA_LIFE, CERTIFICATE_LIFE, make
from stoker_operator.webhook.rotation import (
    CertifiedServer,
    MountedCertificates,
    OwnCertificateNames,
    OwnCertificates,
    load_certificate,
    new_tls_context,
)
from tests.fakes.kube import FakeKube

WHERE = OwnCertificateNames("stoker", "stoker-webhook-tls", ("stoker-webhook.stoker.svc",))


class Replica:
    """The webhook of one replica. ``served``: serial numbers of the loaded certificates, in order."""

    def __init__(self, kube: FakeKube) -> None:
        self.now = datetime(2026, 11, 21, tzinfo=UTC)
        self.served: list[int] = []
        self.server = CertifiedServer(self._take, partial(publish_bundle, kube, "stoker"))
        self.certificates = OwnCertificates(kube, WHERE, self.server, lambda: self.now)

    def _take(self, certificate: bytes, key: bytes) -> None:
        load_certificate(new_tls_context(), certificate, key)
        self.served.append(x509.load_pem_x509_certificate(certificate).serial_number)


@pytest.fixture
async def kube() -> FakeKube:
    fake = FakeKube()
    webhooks = [{"name": "pods.stoker.dev", "clientConfig": {"service": {"name": "stoker-webhook"}}}]
    for kind in WEBHOOK_KINDS:
        await fake.create(kind, {"metadata": {"name": "stoker"}, "webhooks": webhooks})
    return fake


@pytest.fixture
def replica(kube: FakeKube) -> Replica:
    return Replica(kube)


async def secret(kube: FakeKube) -> dict[str, bytes]:
    data: dict[str, Any] = (await kube.get(SECRETS, WHERE.secret, WHERE.namespace))["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


async def bundle(kube: FakeKube, kind: Kind = MUTATING_WEBHOOKS) -> bytes:
    configuration = await kube.get(kind, "stoker")
    return base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])


async def test_the_first_pass_makes_the_secret_and_the_ca_bundle(kube: FakeKube, replica: Replica) -> None:
    await replica.certificates.ensure()
    assert {await bundle(kube, kind) for kind in WEBHOOK_KINDS} == {(await secret(kube))["ca.crt"]}
    assert len(replica.served) == 1


async def test_a_second_pass_writes_and_loads_nothing(kube: FakeKube, replica: Replica) -> None:
    await replica.certificates.ensure()
    await replica.certificates.ensure()
    assert [verb for verb, _ in kube.requests if verb in ("create", "patch")] == [
        *("create", "create", "create"),
        *("patch", "patch"),
    ]
    assert len(replica.served) == 1


async def test_a_second_replica_serves_what_the_first_made(kube: FakeKube, replica: Replica) -> None:
    await replica.certificates.ensure()
    other = Replica(kube)
    await other.certificates.ensure()
    assert other.served == replica.served[:1]


async def test_a_bundle_that_someone_emptied_is_put_back(kube: FakeKube, replica: Replica) -> None:
    await replica.certificates.ensure()
    webhooks = [{"name": "pods.stoker.dev", "clientConfig": {"service": {"name": "stoker-webhook"}}}]
    await kube.patch(MUTATING_WEBHOOKS, "stoker", {"webhooks": webhooks})
    await replica.certificates.ensure()
    assert await bundle(kube) == (await secret(kube))["ca.crt"]


async def test_a_renewed_certificate_is_served_at_once(replica: Replica) -> None:
    await replica.certificates.ensure()
    replica.now += CERTIFICATE_LIFE * 0.7
    await replica.certificates.ensure()
    assert len(set(replica.served)) == 2


async def test_a_new_authority_is_published_a_pass_before_its_certificate_is_served(
    kube: FakeKube, replica: Replica
) -> None:
    await replica.certificates.ensure()
    replica.now += CA_LIFE * 0.7
    await replica.certificates.ensure()
    assert len(x509.load_pem_x509_certificates(await bundle(kube))) == 2
    assert len(replica.served) == 1
    await replica.certificates.ensure()
    assert len(set(replica.served)) == 2


@pytest.mark.expected_logs("does not exist")
async def test_without_a_configuration_the_certificate_is_served_all_the_same() -> None:
    replica = Replica(FakeKube())
    await replica.certificates.ensure()
    assert len(replica.served) == 1


@pytest.mark.expected_logs("creating new certificates .*: the webhook's certificates do not parse")
async def test_an_unreadable_secret_is_made_anew(kube: FakeKube, replica: Replica) -> None:
    rubbish = {key: base64.b64encode(b"x").decode() for key in ("ca.crt", "ca.key", "tls.crt", "tls.key")}
    body = {"metadata": {"name": WHERE.secret, "namespace": WHERE.namespace}, "data": rubbish}
    await kube.create(SECRETS, body, WHERE.namespace)
    await replica.certificates.ensure()
    assert (await secret(kube))["ca.crt"] != b"x"


def write_pair(folder: Path) -> int:
    """Write a new tls.crt and tls.key, and return the serial number of the certificate."""
    material = make(WHERE.hosts, datetime.now(UTC))
    (folder / "tls.crt").write_bytes(material.certificate)
    (folder / "tls.key").write_bytes(material.key)
    return x509.load_pem_x509_certificate(material.certificate).serial_number


def mounted(folder: Path, replica: Replica) -> MountedCertificates:
    return MountedCertificates(folder, replica.server)


async def test_a_mounted_certificate_is_loaded_once_and_again_when_it_changes(tmp_path: Path, replica: Replica) -> None:
    certificates = mounted(tmp_path, replica)
    first = write_pair(tmp_path)
    await certificates.ensure()
    await certificates.ensure()
    second = write_pair(tmp_path)
    await certificates.ensure()
    assert replica.served == [first, second]


async def test_the_bundle_of_a_mounted_certificate_is_left_to_its_injector(
    kube: FakeKube, tmp_path: Path, replica: Replica
) -> None:
    write_pair(tmp_path)
    await mounted(tmp_path, replica).ensure()
    assert "patch" not in {verb for verb, _ in kube.requests}


async def test_a_mounted_key_of_another_certificate_is_an_error(tmp_path: Path, replica: Replica) -> None:
    write_pair(tmp_path)
    (tmp_path / "tls.key").write_bytes(b"not a key")
    with pytest.raises(CertificateError, match="cannot be used"):
        await mounted(tmp_path, replica).ensure()


async def test_a_missing_mount_is_named(tmp_path: Path, replica: Replica) -> None:
    with pytest.raises(CertificateError, match=str(tmp_path)):
        await mounted(tmp_path, replica).ensure()
