"""The location of a Dataset's objects from its source, and the network addresses that its endpoint may have."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import unquote

from stoker_api.names import Reason
from stoker_sidecar.errors import EndpointNotAllowed, InvalidSource
from stoker_sidecar.version.objects import folder_prefix

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_WILDCARD = re.compile(r"[*?\[]")
_QUERY = re.compile(r"\?\w+=.*")
# Other programs' forms of a bucket and a prefix, with Amazon's addresses before those of other servers.
_AMAZON_HOST = r"s3(?:[.-][^/]*)?\.amazonaws\.com[^/]*"
_OTHER_NAMES = tuple(
    re.compile(form + r"/*(?P<prefix>[^?]*).*", re.IGNORECASE)
    for form in (
        r"(?:s3[an]?|gs|gcs|r2|oss|cos|obs|minio)://(?P<bucket>[^/]+)",
        r"arn:[\w-]+:s3:::(?P<bucket>[^/]+)",
        rf"https?://(?P<bucket>[^/]+)\.{_AMAZON_HOST}",
        rf"https?://{_AMAZON_HOST}/(?P<bucket>[^/]+)",
        r"(?P<endpoint>https?://[^/]+)/+(?P<bucket>[^/]+)",
    )
)
_OF_AMAZON = re.compile(r"(s3|arn:|https?:)", re.IGNORECASE)


@dataclass(frozen=True)
class S3Location:
    """A prefix of an S3 bucket; ``prefix`` is empty or ends with '/'."""

    bucket: str
    prefix: str


@dataclass(frozen=True)
class FolderLocation:
    """An absolute folder on the node."""

    path: Path


def parse_location(uri: str) -> S3Location | FolderLocation:
    """Parse source.uri. Raises InvalidSource with a reason of the API."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in ("s3", "file"):
        raise InvalidSource(
            f"source.uri {uri!r} is not supported: write {_supported(uri)}", reason=Reason.UNSUPPORTED_SCHEME
        )
    return _s3(uri, rest) if scheme == "s3" else _folder(uri, rest)


def _supported(uri: str) -> str:
    """Return the supported form of a source that has another program's form."""
    found = next(filter(None, (form.fullmatch(uri) for form in _OTHER_NAMES)), None)
    if found:
        written = f"s3://{found['bucket']}/{found['prefix']}"
        endpoint = found.groupdict().get("endpoint", "")
        own = _OF_AMAZON.match(uri) and not endpoint
        return written if own else f"{written} with source.endpoint {endpoint}".rstrip()
    if uri.startswith("/"):
        return f"file://{uri}"
    return "file:///folder, an absolute path" if uri.startswith(".") else "s3://bucket/prefix/ or file:///folder"


def named_instead(root: str, path: str, keys: Sequence[str]) -> str:
    """Return a sentence about a path that is not a folder, with the correct form; empty if there is no advice.

    ``root``: s3://bucket/ or file:///. ``keys``: the first keys that begin with the path.
    """
    parts = path.split("/")
    depth = next((number for number, part in enumerate(parts) if _WILDCARD.search(part)), len(parts) - 1)
    write = f"write {root}{''.join(f'{part}/' for part in parts[:depth])} and source.include"
    rest = "/".join(parts[depth:])
    if path in keys:
        kind = "a file" if root.startswith("file:") else "an object"
        return f"{root}{path} is {kind}, not a folder: {write} '{_literal(rest)}'"
    if keys and depth == len(parts) - 1 and not path[-1].isalnum():  # few folders are called "part-"
        more = "*/**" if "/" in keys[0].removeprefix(path) else "*"
        begins = f"is no folder, but the beginning of keys such as {keys[0][:200]!r}"
        return f"{root}{path} {begins}: {write} '{_literal(rest)}{more}'"
    if query := _QUERY.search(path):
        return f"{root}{path} has a query: leave out {query[0]!r}"
    return f"{root}{path} is a pattern, not a folder: {write} '{rest}'" if _WILDCARD.search(path) else ""


def _literal(text: str) -> str:
    """Return the pattern that matches exactly this text."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def _s3(uri: str, rest: str) -> S3Location:
    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidSource(
            f"the bucket {bucket!r} in source.uri {uri!r} must have 3 to 63 characters of a-z, 0-9, '.' and '-', "
            "and begin and end with a letter or digit",
            reason=Reason.MALFORMED_URI,
        )
    return S3Location(bucket, folder_prefix(prefix))


def _folder(uri: str, rest: str) -> FolderLocation:
    path = Path(unquote(rest))
    if not path.is_absolute() or ".." in path.parts:
        raise InvalidSource(
            f"source.uri {uri!r} must name an absolute folder without '..': write file:///folder",
            reason=Reason.MALFORMED_URI,
        )
    return FolderLocation(path)


Network = IPv4Network | IPv6Network

# Services at these addresses trust any client, and requests come from the node's network, past the policies of pods.
_REFUSED: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this machine, for Linux
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, with the metadata services of most clouds
        "100.100.100.200/32",  # Alibaba's metadata
        "168.63.129.16/32",  # Azure's agent
        "192.0.0.192/32",  # Oracle's metadata
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "::/128",
        "::1/128",
        "fe80::/10",
        "fd00:ec2::/32",  # Amazon's metadata and the addresses next to it
        "fd20:ce::/32",  # Google's
        "ff00::/8",
    )
)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks such as ``127.0.0.0/8`` or single addresses. Raises ValueError."""
    return tuple(ip_network(text, strict=False) for text in texts)


def may_be_asked(address: str, allowed: Sequence[Network]) -> bool:
    """Return True if an endpoint may have this address: it is ordinary or explicitly allowed."""
    number = _plain(address)
    return any(number in network for network in allowed) or not any(number in network for network in _REFUSED)


def check_addresses(host: str, addresses: Iterable[str], allowed: Sequence[Network]) -> None:
    """Raise EndpointNotAllowed if any address of a host is forbidden."""
    for address in addresses:
        if not may_be_asked(address, allowed):
            raise EndpointNotAllowed(
                f"the endpoint {host} is at {address}, an address of the node itself or of its cloud's metadata: name "
                "another endpoint, or have its network named in the chart's value sidecar.endpoints.allow"
            )


def _plain(address: str) -> IPv4Address | IPv6Address:
    """Parse an address without its zone. Return the IPv4 address for an IPv6 form of one."""
    number = ip_address(address.partition("%")[0])
    if isinstance(number, IPv6Address):
        return number.ipv4_mapped or number.sixtofour or _translated(number) or number
    return number


def _translated(number: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address in a NAT64 address (well-known prefix) or an IPv4-compatible address, or None."""
    high, low = divmod(int(number), 2**32)
    return IPv4Address(low) if high == 0x64FF9B << 64 or (high == 0 and low > 1) else None
