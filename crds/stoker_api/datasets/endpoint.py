"""The form of S3 endpoints and regions, shared by the CRD, the operator and ``stoker mount``."""

import re
from ipaddress import AddressValueError, IPv6Address

_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
# Valid in RE2 and in Python, because the CRD's rule also uses it.
ENDPOINT_PATTERN = rf"^https?://({_LABEL}([.]{_LABEL})*|[[][0-9A-Fa-f:.]{{2,45}}[]])(:{_PORT})?/?$"
ENDPOINT_HINT = (
    "is not the URL of a server: write http:// or https://, a DNS name or address, and perhaps a port, "
    "such as https://minio.storage:9000"
)
# The same with * for a name between dots: the endpoints that a DatasetClass allows.
ENDPOINT_GLOB_PATTERN = rf"^https?://(({_LABEL}|\*)(\.({_LABEL}|\*))*|\[[0-9A-Fa-f:.]{{2,45}}\])(:[0-9]{{1,5}})?/?$"
REGION_PATTERN = r"^[a-z]([a-z0-9-]*[a-z0-9])?$"  # it becomes a label of a DNS name
_ENDPOINT = re.compile(ENDPOINT_PATTERN[1:-1].replace("[[]", r"\["))  # CEL treats a backslash differently
_MOST_HOST = 253


def checked_endpoint(url: str | None) -> str | None:
    """Return the URL unchanged. Raises ValueError with a sentence for a URL that no server can have."""
    if url is None:
        return None
    match = _ENDPOINT.fullmatch(url)
    if match is None or len(match.group(1)) > _MOST_HOST or not _is_host(match.group(1)):
        raise ValueError(f"{url!r} {ENDPOINT_HINT}")
    return url


def is_address(text: str) -> bool:
    """Return True if the text is only ``host:port``, as in a sidecar's status."""
    try:
        return text == text.strip("/") and ":" in text and checked_endpoint(f"http://{text}") is not None
    except ValueError:
        return False


def host_port(host: str, port: int | str) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return True
    try:
        IPv6Address(host[1:-1])
    except AddressValueError:
        return False
    return True
