"""Keeps the webhook's certificate, its Secret and the caBundle of its configuration in step, on every replica."""

import asyncio
import base64
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from stoker_api import names
from stoker_kube.api import JSON, Kube, Object
from stoker_kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from stoker_kube.resources import SECRETS, Kind
from stoker_operator.errors import CertificateError
from stoker_operator.webhook.calling_path import WEBHOOK_KINDS
from stoker_operator.webhook.certs import KeyMaterial, make, renewed

log = logging.getLogger(__name__)

INTERVAL = 30.0  # seconds between passes: how long a configuration made anew (helm upgrade) is without caBundle at most
_KEYS = {"authorities": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
_ATTEMPTS = 3  # two replicas that start together collide once


class CertificateSource(Protocol):
    """What is kept right by looking at it again and again, such as the webhook's certificate."""

    async def ensure(self) -> None:
        """Look, and put right what is not. Raises KubeError or CertificateError."""


def new_tls_context() -> ssl.SSLContext:
    """Make a server context with no certificate yet; loading one later counts for the connections from then on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def keep(source: CertificateSource) -> None:
    """Ensure again every INTERVAL, until cancelled; a failed pass is logged and the present certificate stays."""
    while True:
        await asyncio.sleep(INTERVAL)
        try:
            await source.ensure()
        except (KubeError, CertificateError) as error:
            log.warning("%s could not be checked, trying again: %s", type(source).__name__, error)


@dataclass(frozen=True)
class OwnCertificateNames:
    """Where the operator keeps its own authority, and who trusts it."""

    namespace: str
    secret: str
    configuration: str
    hosts: Sequence[str]


class OwnCertificates:
    """Own authority in a Secret: whoever comes first makes it, all read it."""

    def __init__(
        self, kube: Kube, where: OwnCertificateNames, tls: ssl.SSLContext, now: Callable[[], datetime]
    ) -> None:
        self._kube: Final = kube
        self._where: Final = where
        self._tls: Final = tls
        self._now: Final = now
        self._serving: bytes | None = None

    async def ensure(self) -> None:
        """Run one pass: Secret, then caBundle, then the TLS context."""
        material = await self._material()
        changed = await self._publish(material.authorities)
        # The API server learns of a new caBundle a moment after it is written: until the next pass the certificate
        # served stays the one that the old bundle trusts.
        if self._serving is None or (self._serving != material.certificate and not changed):
            load_certificate(self._tls, material.certificate, material.key)
            self._serving = material.certificate
            log.info("serving the webhook's certificate of Secret %s/%s", self._where.namespace, self._where.secret)

    async def _material(self) -> KeyMaterial:
        for _ in range(_ATTEMPTS):
            try:
                return await self._read_or_make()
            except (AlreadyExists, Conflict):
                log.info("another replica wrote Secret %s at the same time: reading it", self._where.secret)
        raise CertificateError(
            f"Secret {self._where.namespace}/{self._where.secret} changes all the time: "
            "look for another controller that writes it"
        )

    async def _read_or_make(self) -> KeyMaterial:
        where = self._where
        try:
            secret = await self._kube.get(SECRETS, where.secret, where.namespace)
        except NotFound:
            material = make(where.hosts, self._now())
            await self._kube.create(SECRETS, _secret(where, material), where.namespace)
            return material
        present = _from_secret(secret)
        material = self._renewed(present)
        if material != present:
            patch = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}, "data": _data(material)}
            await self._kube.patch(SECRETS, where.secret, patch, where.namespace)
        return material

    def _renewed(self, present: KeyMaterial | None) -> KeyMaterial:
        if present is None:
            return make(self._where.hosts, self._now())
        try:
            return renewed(present, self._where.hosts, self._now())
        except CertificateError as error:
            log.warning("making the certificates of Secret %s anew: %s", self._where.secret, error)
            return make(self._where.hosts, self._now())

    async def _publish(self, authorities: bytes) -> bool:
        """Tell whether the caBundle of a configuration had to be changed."""
        changed = [await self._publish_to(kind, base64.b64encode(authorities).decode()) for kind in WEBHOOK_KINDS]
        return any(changed)

    async def _publish_to(self, kind: Kind, bundle: str) -> bool:
        try:
            configuration = await self._kube.get(kind, self._where.configuration)
        except NotFound:
            log.warning("%s %s does not exist (yet)", kind.kind, self._where.configuration)
            return False
        operations = _bundle_operations(configuration, bundle)
        if operations:
            await self._kube.patch(kind, self._where.configuration, operations, content_type=JSON)
        return bool(operations)


class MountedCertificates:
    """tls.crt and tls.key in a mounted folder that someone else (cert-manager) keeps.

    Its injector writes the caBundle.
    """

    def __init__(self, folder: Path, tls: ssl.SSLContext) -> None:
        self._folder: Final = folder
        self._tls: Final = tls
        self._serving: tuple[bytes, bytes] | None = None

    async def ensure(self) -> None:
        """Load the pair again when it changed."""
        pair = self._read()
        if pair != self._serving:
            load_certificate(self._tls, *pair)
            self._serving = pair

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return (self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes()
        except OSError as error:
            raise CertificateError(f"cannot read tls.crt and tls.key in {self._folder}: {error}") from error


def load_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Serve this pair from now on. Raises CertificateError when they do not belong together."""
    # OpenSSL's binding reads files only; an anonymous one keeps the key off every disk.
    descriptor = os.memfd_create("webhook-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, certificate + key)
        tls.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError as error:
        raise CertificateError(f"the webhook's certificate and key cannot be used: {error}") from error
    finally:
        os.close(descriptor)


def _secret(where: OwnCertificateNames, material: KeyMaterial) -> Object:
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    metadata = {"name": where.secret, "namespace": where.namespace, "labels": labels}
    body: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return body | {"type": "kubernetes.io/tls", "data": _data(material)}


def _data(material: KeyMaterial) -> dict[str, str]:
    return {key: base64.b64encode(getattr(material, field)).decode() for field, key in _KEYS.items()}


def _from_secret(secret: Object) -> KeyMaterial | None:
    data = secret.get("data") or {}
    if not all(data.get(key) for key in _KEYS.values()):
        return None
    return KeyMaterial(**{field: base64.b64decode(data[key]) for field, key in _KEYS.items()})


def _bundle_operations(configuration: Object, bundle: str) -> list[Object]:
    operations: list[Object] = []
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        if webhook["clientConfig"].get("caBundle") != bundle:
            # The test makes sure that the entry is still the one that was read.
            operations.append({"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]})
            path = f"/webhooks/{index}/clientConfig/caBundle"
            operations.append({"op": "add", "path": path, "value": bundle})
    return operations
