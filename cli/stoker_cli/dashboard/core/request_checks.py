"""Which requests of a browser are refused, before anything else. All headers come from the network."""

from collections.abc import Collection
from dataclasses import dataclass

SAFE_METHODS = frozenset({"GET", "HEAD"})
MOST_FORM_BYTES = 4096
# The page loads nothing from other addresses and runs no inline script or style.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # no-referrer would make browsers send "Origin: null" with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class RequestFacts:
    """The checked parts of a request. ``hosts``: all its Host headers. ``site``: Sec-Fetch-Site, empty if absent."""

    method: str
    hosts: Collection[str]
    origin: str = ""
    site: str = ""


@dataclass(frozen=True)
class RequestRefusal:
    """An HTTP status and a sentence."""

    status: int
    message: str


def loopback_hosts(port: int) -> frozenset[str]:
    """Return the Host headers of a server on 127.0.0.1."""
    return frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})


def refusal(request: RequestFacts, own: Collection[str]) -> RequestRefusal | None:
    """Return why a request is refused, or None.

    The Host header must be in ``own``, so that no foreign name that resolves to 127.0.0.1 reads the page. If ``own`` is
    empty, every host is accepted, over TLS or not. A change must come from a page of this server.
    """
    if len(request.hosts) != 1 or (own and not set(request.hosts) <= set(own)):
        return RequestRefusal(421, "This server answers only to 127.0.0.1 and localhost with its port.")
    if request.method in SAFE_METHODS:
        return None
    if request.method != "POST":
        return RequestRefusal(405, "This server answers only to GET, HEAD and POST.")
    (host,) = request.hosts
    schemes = ("http",) if own else ("http", "https")  # an Ingress may end TLS
    if request.origin not in [f"{scheme}://{host}" for scheme in schemes] or request.site not in ("", "same-origin"):
        return RequestRefusal(403, "This request does not come from a page of this server.")
    return None
