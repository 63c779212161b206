"""Asks sidecars for the figures of their pods: bounded in bytes and time, over TLS that proves each node's name."""

import base64
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, Self

import aiohttp
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from stoker_api import names
from stoker_api.node_caches.node_answer import FIGURES_PATH, MOST_FIGURES_BYTES
from stoker_api.node_caches.peers import OPERATOR_URI, peer_host
from stoker_kube.api import Object
from stoker_kube.errors import KubeError
from stoker_kube.resources import SECRETS, Kind
from stoker_operator.webhook.certs import key_pem
from stoker_operator.webhook.peer_authority import PeerAuthority, PeerSigner

ANSWER_SECONDS = 1.0  # for one node
_LOOK_SECONDS = 30.0  # between two looks at the nodes' authority
_RENEW = timedelta(hours=12)  # half of a certificate's life


class SilentNodeError(Exception):
    """A sentence why a node gives no figures."""


class SidecarAddress(NamedTuple):
    """Where the sidecar of a node listens for peers."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL of the figures."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{FIGURES_PATH}"


class Secrets(Protocol):
    """A reader of objects."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Read one object. Raises KubeError."""


class OperatorIdentity:
    """The operator's client certificate for nodes, by the authority that signs the nodes' certificates.

    ``clock``: seconds that only grow; ``now``: the time.
    """

    def __init__(
        self,
        kube: Secrets,
        namespace: str,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube: Final = kube
        self._namespace: Final = namespace
        self._clock: Final = clock
        self._now: Final = now
        self._looked = float("-inf")
        self._authority: PeerAuthority | None = None
        self._made: datetime | None = None
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext:
        """Return what to ask nodes with. Raises SilentNodeError while there is no authority."""
        if self._clock() - self._looked >= _LOOK_SECONDS:
            await self._look()
        if self._context is None:
            raise SilentNodeError("the nodes have no certificates yet")
        return self._context

    async def _look(self) -> None:
        try:
            secret = await self._kube.get(SECRETS, names.PEER_AUTHORITY_SECRET, self._namespace)
        except KubeError:
            return  # the present certificate is good for hours
        self._looked = self._clock()
        data = secret.get("data") or {}
        if not data.get("ca.crt") or not data.get("ca.key"):
            return
        authority = PeerAuthority(base64.b64decode(data["ca.crt"]), base64.b64decode(data["ca.key"]))
        if authority != self._authority or self._made is None or self._now() - self._made >= _RENEW:
            self._context, self._authority, self._made = _context(authority, self._now()), authority, self._now()


class NodeClient:
    """Asks nodes. Use it as an asynchronous context manager."""

    def __init__(self, identity: OperatorIdentity) -> None:
        self._identity: Final = identity
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # No compression: a small answer must not become a large one.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=64, keepalive_timeout=15.0),
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, node: str, where: SidecarAddress) -> dict[str, Any]:
        """Return a node's answer, as JSON: nothing in it is validated but its name. Raises SilentNodeError."""
        assert self._session is not None, "use it as a context manager"
        tls = await self._identity.context()
        try:
            async with self._session.get(
                where.url, ssl=tls, server_hostname=peer_host(node), allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise SilentNodeError(f"its sidecar answered with status {response.status}")
                body = await _bounded(response.content)
        except TimeoutError as error:
            raise SilentNodeError(f"its sidecar did not answer within {ANSWER_SECONDS:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise SilentNodeError(f"its sidecar cannot be reached ({type(error).__name__})") from error
        answer = _parsed(body)
        if answer.get("node") != node:
            raise SilentNodeError("its sidecar answered for another node")
        return answer


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """Read an answer. Raises SilentNodeError for one that is too long."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MOST_FIGURES_BYTES:
            raise SilentNodeError(f"its sidecar answered with more than {MOST_FIGURES_BYTES:,} bytes")
    return bytes(body)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise SilentNodeError("its sidecar's answer cannot be read") from error
    return answer


def _context(authority: PeerAuthority, now: datetime) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = PeerSigner(authority).sign_client(x509.UniformResourceIdentifier(OPERATOR_URI), key.public_key(), now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.authorities.decode())
    descriptor = os.memfd_create("operator-certificate", os.MFD_CLOEXEC)  # OpenSSL's binding reads files only
    try:
        os.write(descriptor, certificate + key_pem(key))
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
