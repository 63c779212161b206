"""By what sidecars know each other: one certificate that all have, and the authorities that may have signed it.

The agent reads it from its Secret, serves with it, and leaves it for the fetcher in the folder of the sockets, which is
in memory and the pod's own.
"""

import json
import os
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker_sidecar.wire.tls_sessions import ResumingContext

FILE = "peer.json"  # in the folder of the sockets


@dataclass(frozen=True)
class PeerTls:
    """PEM texts."""

    authorities: str
    certificate: str
    key: str

    def server_context(self) -> ssl.SSLContext:
        """Return what to serve with: it answers nobody without such a certificate. Raises ssl.SSLError."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def client_context(self) -> ssl.SSLContext:
        """Return what to ask with, by the name PEER_NAME whatever the address is. Raises ssl.SSLError."""
        return self._loaded(ResumingContext(ssl.PROTOCOL_TLS_CLIENT))

    def leave(self, folder: Path) -> None:
        """Leave it for the processes of the folder's group. Blocks. Raises OSError."""
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
        # OpenSSL's binding reads files only; an anonymous one keeps the key off every disk.
        descriptor = os.memfd_create("peer-certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, f"{self.certificate}\n{self.key}".encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context


def left(folder: Path) -> PeerTls | None:
    """Return what the agent left; None when it has nothing yet. Blocks. Raises OSError and ValueError."""
    try:
        return PeerTls(**json.loads((folder / FILE).read_text()))
    except FileNotFoundError:
        return None
