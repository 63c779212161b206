"""How any S3 client here connects: timeouts, whom it trusts, through which proxy."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi

from stoker_sidecar.core.credentials import Credentials
from stoker_sidecar.errors import InvalidCredentials

USER_AGENT = "stoker"


@dataclass(frozen=True)
class ConnectionSettings:
    """Seconds, for each dataset's client."""

    connect_timeout: float = 5.0  # a healthy endpoint in the same region answers in milliseconds
    read_timeout: float = 30.0  # between two pieces of a body, not for the whole
    sts_endpoint: str | None = None  # URL; None: the region's own


def tls_context(credentials: Credentials) -> ssl.SSLContext:
    """Trusts the CA that came with the credentials alone; without one AWS_CA_BUNDLE's, else certifi's, as botocore does.

    Raises InvalidCredentials when what came is no CA. Blocks: 50 ms of CPU for certifi's list.
    """
    pem = _pem(credentials)
    if not pem:
        return ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE") or certifi.where())
    try:
        return ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidCredentials(f"ca.crt in the Secret is not a PEM certificate bundle: {error}") from error


@contextmanager
def ca_file(credentials: Credentials) -> Iterator[str | None]:
    """The CA that came with the credentials as a file, since botocore takes no other form; None when none came."""
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
    """URL of the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for it; None: straight."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _pem(credentials: Credentials) -> str:
    return str(getattr(credentials, "ca_pem", ""))
