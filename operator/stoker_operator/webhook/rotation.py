"""Keeps a server's certificate, its Secret and its clients' CA bundle in step. Each process that serves TLS runs it."""

import asyncio
import base64
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from stoker_api import names
from stoker_kube.api import Kube, Object
from stoker_kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from stoker_kube.resources import SECRETS
from stoker_operator.core.views import installed_names
from stoker_operator.errors import CertificateError
from stoker_operator.webhook.certs import KeyMaterial, make, renewed

log = logging.getLogger(__name__)

INTERVAL = 30.0  # seconds between passes: a recreated configuration (helm upgrade) lacks its caBundle this long
_KEYS = {"authorities": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
_ATTEMPTS = 3  # processes that start together collide once
_FIRST_RETRY = 2.0  # seconds; at start the API server may be as new as the operator


class CertificateSource(Protocol):
    """A resource that repeated checks keep correct, such as the webhook's certificate."""

    async def ensure(self) -> None:
        """Check, and correct if needed. Raises KubeError or CertificateError."""


def new_tls_context() -> ssl.SSLContext:
    """Return a server context without a certificate; one loaded later applies to new connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def ensure_first(source: CertificateSource, waiting: str) -> None:
    """Ensure until it works once; log ``waiting`` with each failure."""
    while True:
        try:
            return await source.ensure()
        except (KubeError, CertificateError) as error:
            log.warning("%s: %s", waiting, error)
            await asyncio.sleep(_FIRST_RETRY)


async def keep(source: CertificateSource) -> None:
    """Ensure every INTERVAL, until cancelled; a failed pass is logged and the present certificate stays."""
    while True:
        await asyncio.sleep(INTERVAL)
        try:
            await source.ensure()
        except (KubeError, CertificateError) as error:
            log.warning("%s could not be checked, trying again: %s", type(source).__name__, error)


@dataclass(frozen=True)
class OwnCertificateNames:
    """The Secret of the operator's authority, and the names in its certificate."""

    namespace: str
    secret: str
    hosts: Sequence[str]


@dataclass(frozen=True)
class CertifiedServer:
    """A server that uses the certificate.

    ``take`` receives each new pair, PEM. ``publish`` writes the bundle, PEM, to the place where the server's clients
    read it, and returns True if that changed something. An empty bundle means that cert-manager writes it.
    """

    take: Callable[[bytes, bytes], None]
    publish: Callable[[bytes], Awaitable[bool]]


class OwnCertificates:
    """The operator's authority in a Secret: the first process creates it, all read it."""

    def __init__(
        self, kube: Kube, where: OwnCertificateNames, server: CertifiedServer, now: Callable[[], datetime]
    ) -> None:
        self._server: Final = server
        self._kube: Final = kube
        self._where: Final = where
        self._now: Final = now
        self._serving: bytes | None = None

    async def ensure(self) -> None:
        """Run one pass: Secret, then CA bundle, then the server."""
        material = await self._material()
        changed = await self._server.publish(material.authorities)
        # The API server sees a new bundle with a short delay: until the next pass the server keeps the certificate that
        # the old bundle trusts.
        if self._serving is None or (self._serving != material.certificate and not changed):
            self._server.take(material.certificate, material.key)
            self._serving = material.certificate
            log.info("serving the certificate of Secret %s/%s", self._where.namespace, self._where.secret)

    async def _material(self) -> KeyMaterial:
        for _ in range(_ATTEMPTS):
            try:
                return await self._read_or_make()
            except (AlreadyExists, Conflict):
                log.info("another process wrote Secret %s at the same time: reading it", self._where.secret)
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
            log.warning("creating new certificates in Secret %s: %s", self._where.secret, error)
            return make(self._where.hosts, self._now())


class MountedCertificates:
    """tls.crt and tls.key in a mounted folder from cert-manager; its injector writes the CA bundle."""

    def __init__(self, folder: Path, server: CertifiedServer) -> None:
        self._server: Final = server
        self._folder: Final = folder
        self._serving: tuple[bytes, bytes] | None = None

    async def ensure(self) -> None:
        """Load the pair again if it changed."""
        pair = self._read()
        if pair != self._serving:
            self._server.take(*pair)
            self._serving = pair
        await self._server.publish(b"")

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return (self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes()
        except OSError as error:
            raise CertificateError(f"cannot read tls.crt and tls.key in {self._folder}: {error}") from error


def certificate_source(kube: Kube, namespace: str, folder: Path | None, server: CertifiedServer) -> CertificateSource:
    """Return the mounted pair of ``folder``; without a folder the operator's certificate."""
    if folder is not None:
        return MountedCertificates(folder, server)
    host = f"{installed_names.WEBHOOK_SERVICE}.{namespace}.svc"
    names_in = OwnCertificateNames(namespace, installed_names.WEBHOOK_SECRET, (host, f"{host}.cluster.local"))
    return OwnCertificates(kube, names_in, server, lambda: datetime.now(UTC))


def load_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Serve this pair from now on. Raises CertificateError if they do not match."""
    # OpenSSL's binding reads files only; an anonymous file keeps the key off every disk.
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
