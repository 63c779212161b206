"""How a store connects: timeouts, whom it trusts, through which proxy, and which folders it may read."""

import os
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi

from stoker_sidecar.errors import InvalidCredentials
from stoker_sidecar.store.core.addresses import check_addresses, parse_networks
from stoker_sidecar.wire.credentials import Credentials

USER_AGENT = "stoker"


@dataclass(frozen=True)
class ConnectionSettings:
    """How each dataset's client connects; times are in seconds."""

    connect_timeout: float = 5.0  # a healthy endpoint in the same region answers in milliseconds
    read_timeout: float = 30.0  # between two pieces of a body, not for the whole
    sts_endpoint: str | None = None  # URL; None: the region's own
    host_folders: Sequence[str] = ()  # absolute; file:// sources are read beneath these alone
    # Networks that endpoints may be in although they are refused by default, such as 127.0.0.0/8; None: any address.
    endpoint_networks: Sequence[str] | None = None
    ca_bundle: str = ""  # path of the CAs that are trusted (AWS_CA_BUNDLE, as botocore reads it too); empty: certifi's

    def check_addresses(self, host: str, addresses: Iterable[str]) -> None:
        """Raise EndpointNotAllowed when a host that a Dataset names has an address that may not be asked."""
        if self.endpoint_networks is not None:
            check_addresses(host, addresses, parse_networks(self.endpoint_networks))


def tls_context(credentials: Credentials, ca_bundle: str) -> ssl.SSLContext:
    """Make a context that trusts the CA that came with the credentials alone; without one, the usual context.

    Raises InvalidCredentials when what came is no CA. Blocks, 50 ms of CPU for certifi's list the first time.
    """
    pem = _pem(credentials)
    if not pem:
        return usual_tls_context(ca_bundle)
    try:
        return ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidCredentials(f"ca.crt in the Secret is not a PEM certificate bundle: {error}") from error


def usual_tls_context(ca_bundle: str) -> ssl.SSLContext:
    """Return the context of all clients that bring no CA of their own, read once: it trusts the bundle, else certifi's.

    Raises OSError when there is no such file.
    """
    path = ca_bundle or certifi.where()
    return _trusting(path, Path(path).stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _trusting(path: str, changed_ns: int) -> ssl.SSLContext:
    """Read the CAs of a bundle; a bundle that was renewed has another ``changed_ns``, so it is read again."""
    return ssl.create_default_context(cafile=path)


@contextmanager
def ca_file(credentials: Credentials) -> Iterator[str | None]:
    """Give the CA that came with the credentials as a file, since botocore takes no other form; None without one."""
    pem = _pem(credentials)
    if not pem:
        yield None
        return
    descriptor = os.memfd_create("ca.crt")  # no folder needs to be writable
    try:
        os.write(descriptor, pem.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def proxy_for(url: str) -> str | None:
    """Return the URL of the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for this URL; None when none.

    The rules of these variables are urllib's, which reads them from the environment itself.
    """
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _pem(credentials: Credentials) -> str:
    return str(getattr(credentials, "ca_pem", ""))
