"""Connection settings of a store: timeouts, trusted CAs, proxies, and the folders it may read."""

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
from stoker_sidecar.store.core.location import check_addresses, parse_networks
from stoker_sidecar.wire.credentials import Credentials

USER_AGENT = "stoker"


@dataclass(frozen=True)
class ConnectionSettings:
    """Settings of each dataset's client; times are in seconds."""

    connect_timeout: float = 5.0  # a healthy endpoint in the same region answers in milliseconds
    read_timeout: float = 30.0  # between two pieces of a body, not for the whole body
    sts_endpoint: str | None = None  # URL; None: the region's own
    host_folders: Sequence[str] = ()  # absolute; file:// sources must lie beneath one of these
    # Networks that endpoints may use although they are refused by default, such as 127.0.0.0/8; None: any address.
    endpoint_networks: Sequence[str] | None = None
    ca_bundle: str = ""  # path of the trusted CAs (AWS_CA_BUNDLE, which botocore reads too); empty: certifi's

    def check_addresses(self, host: str, addresses: Iterable[str]) -> None:
        """Raise EndpointNotAllowed if a Dataset's host has a forbidden address."""
        if self.endpoint_networks is not None:
            check_addresses(host, addresses, parse_networks(self.endpoint_networks))


def tls_context(credentials: Credentials, ca_bundle: str) -> ssl.SSLContext:
    """Make a context that trusts only the CA in the credentials; without one, return the usual context.

    Raises InvalidCredentials if the credentials' CA is invalid. Blocks: the first time, certifi's list takes 50 ms of
    CPU.
    """
    pem = _pem(credentials)
    if not pem:
        return usual_tls_context(ca_bundle)
    try:
        return _trusting_only(pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidCredentials(f"ca.crt in the Secret is not a PEM certificate bundle: {error}") from error


@lru_cache(maxsize=64)
def _trusting_only(pem: str) -> ssl.SSLContext:
    """Make one context for all Datasets with this bundle. Raises SSLError and ValueError."""
    return ssl.create_default_context(cadata=pem)


def usual_tls_context(ca_bundle: str) -> ssl.SSLContext:
    """Return the shared context of all clients without a CA: it trusts the bundle, or certifi's CAs without a bundle.

    Raises OSError if the file does not exist.
    """
    path = ca_bundle or certifi.where()
    return _trusting(path, Path(path).stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _trusting(path: str, changed_ns: int) -> ssl.SSLContext:
    """Read the CAs of a bundle. A renewed bundle has another ``changed_ns``, so it is read again."""
    return ssl.create_default_context(cafile=path)


@contextmanager
def ca_file(credentials: Credentials) -> Iterator[str | None]:
    """Yield the path of a file with the credentials' CA, since botocore takes no other form; None without a CA."""
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
    """Return the URL of the proxy for this URL by HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or None.

    urllib reads these variables from the environment and applies its rules.
    """
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _pem(credentials: Credentials) -> str:
    return str(getattr(credentials, "ca_pem", ""))
