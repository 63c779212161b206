"""Addresses and kernel names of each cluster, so that two clusters on one machine never collide."""

import fcntl
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from e2e.cluster.errors import NoSlotError, UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FIRST_OCTET = 160  # 10.160/16 and up: far from the first ranges of clouds, VPNs and docker
SLOT_COUNT = 32
MAX_NODES = 99
_IPV6_MARK = " ipv6"
NAME_PATTERN = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")


@dataclass(frozen=True)
class Slot:
    """The index of a cluster on this machine, and all values derived from it.

    A slot owns 10.B.0.0/16: 10.B.0/24 joins the machine (.1) and the nodes (.10 + i), 10.B.i/24 holds the pods of node
    i, 10.B.128/17 the services. With ``ipv6`` it owns fd00:e2e:B::/48 instead: the first /64 joins the nodes, the next
    ones hold the pods, fd00:e2e:B:ffff::/112 the services.
    """

    index: int
    ipv6: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.index < SLOT_COUNT:
            raise UsageError(f"A slot's index lies between 0 and {SLOT_COUNT - 1}, not {self.index}.")

    @property
    def network(self) -> Network:
        if self.ipv6:
            return IPv6Network(f"fd00:e2e:{self.index:x}::/48")
        return IPv4Network(f"10.{FIRST_OCTET + self.index}.0.0/16")

    @property
    def node_network(self) -> Network:
        return self._subnet(0)

    @property
    def service_network(self) -> Network:
        if self.ipv6:  # the API server accepts at most 20 bits of services
            return IPv6Network((self._subnet(0xFFFF).network_address, 112))
        return IPv4Network((self._subnet(128).network_address, 17))

    @property
    def host_address(self) -> Address:
        """The machine's own address on the cluster's bridge: API server, DNS and S3 listen there."""
        return self.node_network[1]

    @property
    def host(self) -> str:
        """The same address in URL form: IPv6 in brackets."""
        return f"[{self.host_address}]" if self.ipv6 else str(self.host_address)

    @property
    def default_route(self) -> str:
        return "::/0" if self.ipv6 else "0.0.0.0/0"

    @property
    def api_service_address(self) -> Address:
        return self.service_network[1]

    @property
    def etcd_address(self) -> IPv4Address:
        """On loopback, where no pod can reach it."""
        return IPv4Address(f"127.77.{self.index}.1")

    @property
    def bridge(self) -> str:
        return f"se2e{self.index}"

    def node_address(self, node: int) -> Address:
        return self.node_network[10 + _checked(node)]

    def hardware_address(self, node: int) -> str:
        """Return a fixed MAC address, so that all nodes find a node at once if it reuses a number."""
        return f"02:e2:e0:00:{self.index:02x}:{_checked(node):02x}"

    def pod_network(self, node: int) -> Network:
        return self._subnet(_checked(node))

    def _subnet(self, number: int) -> Network:
        first = int(self.network.network_address)
        if self.ipv6:
            return IPv6Network((first + (number << 64), 64))
        return IPv4Network((first + (number << 8), 24))

    def veth(self, node: int) -> str:
        return f"{self.bridge}n{_checked(node)}"


def _checked(node: int) -> int:
    if not 1 <= node <= MAX_NODES:
        raise UsageError(f"A cluster has nodes 1 to {MAX_NODES}; node {node} has no addresses.")
    return node


def checked_name(name: str) -> str:
    """Return `name` if it is a valid cluster name (it becomes part of cgroup and folder names)."""
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(
            f"A cluster's name is 1 to 20 lower-case letters, digits and dashes, starting with a letter; not {name!r}."
        )
    return name


def choose(taken: Iterable[int], routes: Iterable[Network], *, ipv6: bool = False) -> Slot:
    """Return the first slot that no cluster holds and that overlaps no route of the machine."""
    taken, routes = set(taken), list(routes)
    for index in range(SLOT_COUNT):
        slot = Slot(index, ipv6)
        if index not in taken and not any(overlap(slot.network, route) for route in routes):
            return slot
    raise NoSlotError(f"All {SLOT_COUNT} address ranges are in use. Stop a cluster: python -m e2e.cluster down --all.")


def overlap(one: Network, other: Network) -> bool:
    """Return True if two networks of one address family share an address."""
    if isinstance(one, IPv4Network) and isinstance(other, IPv4Network):
        return one.overlaps(other)
    return isinstance(one, IPv6Network) and isinstance(other, IPv6Network) and one.overlaps(other)


class SlotRegistry:
    """The slots in use: one file per slot with the cluster's name, and a mark if its addresses are IPv6."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def _locked(self) -> Iterator[dict[Slot, str]]:
        """Hold the lock. Yield the owner of each slot."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            rows = ((int(file.name), file.read_text()) for file in self._folder.iterdir() if file.name.isdigit())
            yield {Slot(index, text.endswith(_IPV6_MARK)): text.removesuffix(_IPV6_MARK) for index, text in rows}

    def find(self, name: str) -> Slot | None:
        with self._locked() as held:
            return next((slot for slot, owner in held.items() if owner == name), None)

    def names(self) -> list[str]:
        with self._locked() as held:
            return sorted(held.values())

    def acquire(self, name: str, routes: Iterable[Network], *, ipv6: bool = False) -> Slot:
        """Return the slot of `name`, or a new one. Raises NoSlotError."""
        with self._locked() as held:
            for slot, owner in held.items():
                if owner == name:
                    return slot
            slot = choose((slot.index for slot in held), routes, ipv6=ipv6)
            (self._folder / str(slot.index)).write_text(name + (_IPV6_MARK if ipv6 else ""))
            return slot

    def release(self, name: str) -> None:
        with self._locked() as held:
            for slot in [slot for slot, owner in held.items() if owner == name]:
                (self._folder / str(slot.index)).unlink()
