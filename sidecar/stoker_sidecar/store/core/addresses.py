"""Network addresses that a Dataset's endpoint may have. The machine's own addresses are forbidden unless allowed."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from stoker_sidecar.errors import EndpointNotAllowed

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
