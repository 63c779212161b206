"""What two keepers say to each other when a node's mounts go from one to the other. Pure: packets to values and back.

successor: hello{protocol, identity}
                    predecessor: wait (I am newer, and go first) or coming (I am stopping my processes)
                    predecessor: offer{protocol, mounts: n}, with the descriptor of what its fetcher was told,
                                 then n mounts, each with its FUSE descriptor
successor: serving
                    predecessor: yours (I have closed mine; with the lock) or mine (too late: I go on)

`hello`, `offer` and what follows them never change, so that any two versions can speak; keepers of different protocols
hand over no mounts, and the successor mounts anew.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stoker_sidecar.errors import TakeoverFailed

PROTOCOL = 1
# The other keeper answers from its event loop; a child that it starts may hold that for half a second.
ANSWER_SECONDS = 10.0
WAIT = "wait"
COMING = "coming"
SERVING = "serving"
YOURS = "yours"
MINE = "mine"
_KIND = "kind"
Packet = dict[str, Any]


@dataclass(frozen=True)
class Hello:
    """The first packet of a successor: who asks, and in which protocol."""

    identity: str
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class Offer:
    """The predecessor's answer: how many mounts follow."""

    mounts: int
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class MountRow:
    """One mount of an offer; its descriptor goes with the packet. ``ready``: it was answered until now."""

    uid: str
    digest: str
    manifest: str
    version_dir: str
    mountpoint: str
    ready: bool


def word(kind: str) -> Packet:
    """Make a packet that is nothing but its kind."""
    return {_KIND: kind}


def kind_of(packet: Mapping[str, Any]) -> str:
    """Return which packet it is."""
    return str(packet.get(_KIND))


def hello(message: Hello) -> Packet:
    """Make the packet."""
    return {_KIND: "hello"} | asdict(message)


def offer(message: Offer) -> Packet:
    """Make the packet."""
    return {_KIND: "offer"} | asdict(message)


def mount(row: MountRow) -> Packet:
    """Make the packet."""
    return {_KIND: "mount"} | asdict(row)


def parse_hello(packet: Mapping[str, Any]) -> Hello:
    """Read the packet. Raises TakeoverFailed."""
    return Hello(str(_field(packet, "hello", "identity", str)), int(_field(packet, "hello", "protocol", int)))


def parse_offer(packet: Mapping[str, Any]) -> Offer:
    """Read the packet. Raises TakeoverFailed."""
    return Offer(int(_field(packet, "offer", "mounts", int)), int(_field(packet, "offer", "protocol", int)))


def parse_mount(packet: Mapping[str, Any]) -> MountRow:
    """Read the packet. Raises TakeoverFailed."""
    texts = {name: str(_field(packet, "mount", name, str)) for name in MountRow.__annotations__ if name != "ready"}
    return MountRow(**texts, ready=bool(_field(packet, "mount", "ready", bool)))


def _field(packet: Mapping[str, Any], kind: str, name: str, of: type) -> Any:
    value = packet.get(name)
    if kind_of(packet) != kind or not isinstance(value, of):
        raise TakeoverFailed(f"the other keeper sent {dict(packet)!r} where {kind!r} with {name!r} was due")
    return value


def registered(order: list[str], identity: str) -> list[str]:
    """Return the node's keepers by age, oldest first, when ``identity`` starts: it keeps its place if it has one."""
    return order if identity in order else [*order[-_REMEMBERED:], identity]


def is_newer(order: list[str], one: str, other: str) -> bool:
    """Tell whether ``one`` came to this node after ``other``; what is not remembered came first."""
    places = {identity: place for place, identity in enumerate(order)}
    return places.get(one, -1) > places.get(other, -1)


# Pods of one node that can live at the same time: two. The others are for a clean answer to a very late one.
_REMEMBERED = 50
