"""The mutual TLS identity of nodes: a node's certificate, its key, and the authorities that sign all node certificates.

The agent serves with it, and stores it for the fetcher in the sockets' folder, which is in memory and belongs to the
pod.
"""

import json
import os
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stoker_api.node_caches.peers import OPERATOR_URI, node_of_uri

# The host:port of this task's next connection; empty: unknown, so it needs a full handshake.
asked: ContextVar[str] = ContextVar("asked", default="")


class ResumingContext(ssl.SSLContext):
    """A client's context that resumes the last session with the same peer and name.

    A full handshake with certificates on both sides takes 4 ms of CPU at the client and 2.4 at the server. A resumed
    session takes a sixth. asyncio has no parameter for the session's peer, so the variable ``asked`` passes it.

    Only a full handshake compares a peer's name with its certificate. The peer then proved its certificate to this
    context, which trusts only the node authorities. A peer with another certificate has forgotten the session.
    """

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Start a connection: see SSLContext."""
        before: dict[tuple[str, str | bytes | None], ssl.SSLObject] = self.__dict__.setdefault("before", {})
        peer = asked.get(), server_hostname
        if peer[0] and session is None and peer in before:
            session = before[peer].session
        begun = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if peer[0]:
            before[peer] = begun
        return begun


FILE = "peer.json"  # in the sockets' folder


@dataclass(frozen=True)
class PeerTls:
    """PEM texts."""

    authorities: str
    certificate: str
    key: str

    @property
    def public(self) -> tuple[str, str]:
        """The certificate and the authorities."""
        return self.certificate, self.authorities

    def server_context(self) -> ssl.SSLContext:
        """Return the server's context, which refuses clients without such a certificate. Raises ssl.SSLError."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def client_context(self) -> ssl.SSLContext:
        """Return the client's context, which verifies a node's name at any address. Raises ssl.SSLError."""
        return self._loaded(ResumingContext(ssl.PROTOCOL_TLS_CLIENT))

    def leave(self, folder: Path) -> None:
        """Store it for the processes of the folder's group. Blocks. Raises OSError."""
        arriving = folder / f"{FILE}.new"
        arriving.unlink(missing_ok=True)
        descriptor = os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o440)
        with os.fdopen(descriptor, "w") as file:
            os.fchown(descriptor, -1, folder.stat().st_gid)
            json.dump(asdict(self), file)
        arriving.replace(folder / FILE)

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.authorities)
        # OpenSSL's binding reads only files; an anonymous one keeps the key off all disks.
        descriptor = os.memfd_create("peer-certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, f"{self.certificate}\n{self.key}".encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context


def node_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the node in a verified certificate from ``ssl``; None if it names none, or several."""
    names = certificate.get("subjectAltName", ()) if certificate else ()
    found = [node for kind, name in names if kind == "URI" and (node := node_of_uri(name)) is not None]
    return found[0] if len(found) == 1 else None


def is_operator(certificate: Mapping[str, Any] | None) -> bool:
    """Return True if a verified certificate, as ``ssl`` gives it, is the operator's and names no node."""
    names = certificate.get("subjectAltName", ()) if certificate else ()
    return [name for kind, name in names if kind == "URI"] == [OPERATOR_URI]


def left(folder: Path) -> PeerTls | None:
    """Return the identity that the agent stored, or None before it has one. Blocks. Raises OSError and ValueError."""
    try:
        return PeerTls(**json.loads((folder / FILE).read_text()))
    except FileNotFoundError:
        return None
