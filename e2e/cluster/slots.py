"""Which addresses and kernel names a cluster may use, so that two clusters on one machine never meet."""

import fcntl
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from e2e.cluster.errors import NoSlotError, UsageError

FIRST_OCTET = 160  # 10.160/16 and up: far from the ranges that clouds, VPNs and docker hand out first
SLOT_COUNT = 32
MAX_NODES = 99
NAME_PATTERN = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")


@dataclass(frozen=True)
class Slot:
    """The index of a cluster on this machine and everything that follows from it.

    A slot owns 10.B.0.0/16: 10.B.0/24 joins the machine (.1) and the nodes (.10 + i), 10.B.i/24 holds the
    pods of node i, 10.B.128/17 the services.
    """

    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < SLOT_COUNT:
            raise UsageError(f"A slot's index lies between 0 and {SLOT_COUNT - 1}, not {self.index}.")

    @property
    def network(self) -> IPv4Network:
        return IPv4Network(f"10.{FIRST_OCTET + self.index}.0.0/16")

    @property
    def node_network(self) -> IPv4Network:
        return next(self.network.subnets(new_prefix=24))

    @property
    def service_network(self) -> IPv4Network:
        return list(self.network.subnets(new_prefix=17))[1]

    @property
    def host_address(self) -> IPv4Address:
        """The machine's own address on the cluster's bridge: API server, DNS and S3 listen there."""
        return self.node_network[1]

    @property
    def api_service_address(self) -> IPv4Address:
        return self.service_network[1]

    @property
    def etcd_address(self) -> IPv4Address:
        """On loopback, where no pod can reach it."""
        return IPv4Address(f"127.77.{self.index}.1")

    @property
    def bridge(self) -> str:
        return f"se2e{self.index}"

    def node_address(self, node: int) -> IPv4Address:
        return self.node_network[10 + _checked(node)]

    def hardware_address(self, node: int) -> str:
        """Return a fixed address, so that all find a node at once that joins under a number used before."""
        return f"02:e2:e0:00:{self.index:02x}:{_checked(node):02x}"

    def pod_network(self, node: int) -> IPv4Network:
        return IPv4Network((int(self.network.network_address) + (_checked(node) << 8), 24))

    def veth(self, node: int) -> str:
        return f"{self.bridge}n{_checked(node)}"


def _checked(node: int) -> int:
    if not 1 <= node <= MAX_NODES:
        raise UsageError(f"A cluster has nodes 1 to {MAX_NODES}; node {node} has no addresses.")
    return node


def checked_name(name: str) -> str:
    """Return `name` if it can name a cluster (it becomes part of cgroup and folder names)."""
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(
            f"A cluster's name is 1 to 20 lower-case letters, digits and dashes, starting with a letter; not {name!r}."
        )
    return name


def choose(taken: Iterable[int], routes: Iterable[IPv4Network]) -> Slot:
    """Return the first slot that no cluster holds and none of the machine's routes overlaps."""
    taken, routes = set(taken), list(routes)
    for index in range(SLOT_COUNT):
        slot = Slot(index)
        if index not in taken and not any(slot.network.overlaps(route) for route in routes):
            return slot
    raise NoSlotError(f"All {SLOT_COUNT} address ranges are in use. Stop a cluster: python -m e2e.cluster down --all.")


class SlotRegistry:
    """The slots in use: one file per slot, which holds the cluster's name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def _locked(self) -> Iterator[dict[int, str]]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield {int(file.name): file.read_text() for file in self._folder.iterdir() if file.name.isdigit()}

    def find(self, name: str) -> Slot | None:
        with self._locked() as held:
            return next((Slot(index) for index, owner in held.items() if owner == name), None)

    def names(self) -> list[str]:
        with self._locked() as held:
            return sorted(held.values())

    def acquire(self, name: str, routes: Iterable[IPv4Network]) -> Slot:
        """Return the slot of `name`, a new one if it holds none. Raises NoSlotError."""
        with self._locked() as held:
            for index, owner in held.items():
                if owner == name:
                    return Slot(index)
            slot = choose(held, routes)
            (self._folder / str(slot.index)).write_text(name)
            return slot

    def release(self, name: str) -> None:
        with self._locked() as held:
            for index in [index for index, owner in held.items() if owner == name]:
                (self._folder / str(index)).unlink()
