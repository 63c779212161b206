"""Sends each CA bundle to the fetcher once, identified by its hash, however many Datasets trust it.

Both ends of a connection keep the same bundles, because they see the same requests in the same order.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.credentials import MOST_CA_BYTES, StaticCredentials, WebIdentityCredentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Request, Served, Trust, TrustingConfigure

MOST_BUNDLES = 256  # of 64 KiB, for one connection: an evicted bundle is sent again when needed


class CaBundles:
    """The bundles that one end of a connection knows."""

    def __init__(self, most: int = MOST_BUNDLES) -> None:
        self._most = most
        self._known: OrderedDict[str, str] = OrderedDict()

    def sent(self, request: Request) -> Iterator[Request]:
        """Yield the messages for one request: first its bundle, unless the fetcher has it."""
        if not isinstance(request, Configure) or not (pem := ca_of(request)):
            yield request
            return
        digest = digest_of(pem)
        if digest not in self._known:
            yield Trust(digest, pem)
        self._keep(digest, pem)
        yield without_bundle(request, digest)

    def received(self, request: Request) -> Served | None:
        """Return the original request, or None for a bundle. Raises ProtocolError."""
        if isinstance(request, Trust):
            if len(request.pem) > MOST_CA_BYTES or digest_of(request.pem) != request.sha256:
                raise ProtocolError("a CA bundle is not the one that it should be")
            self._keep(request.sha256, request.pem)
            return None
        if isinstance(request, TrustingConfigure):
            pem = self._known.get(request.ca)
            if pem is None:
                raise ProtocolError(f"the CA bundle {request.ca[:12]!r} was not sent")
            self._keep(request.ca, pem)
            return with_bundle(request, pem)
        return request

    def _keep(self, digest: str, pem: str) -> None:
        self._known[digest] = pem
        self._known.move_to_end(digest)
        if len(self._known) > self._most:
            self._known.popitem(last=False)


def ca_of(request: Configure) -> str:
    """Return the bundle in a request; empty: none."""
    credentials = request.credentials
    return credentials.ca_pem if isinstance(credentials, StaticCredentials | WebIdentityCredentials) else ""


@lru_cache(maxsize=MOST_BUNDLES)
def digest_of(pem: str) -> str:
    """Return the SHA-256 of a bundle."""
    return hashlib.sha256(pem.encode()).hexdigest()


def without_bundle(request: Configure, digest: str) -> TrustingConfigure:
    """Return a request that refers to its bundle by digest."""
    return TrustingConfigure(request.dataset, replace(request.credentials, ca_pem=""), request.held, digest)


def with_bundle(request: TrustingConfigure, pem: str) -> Configure:
    """Return a request with its bundle restored."""
    return Configure(request.dataset, replace(request.credentials, ca_pem=pem), request.held)
