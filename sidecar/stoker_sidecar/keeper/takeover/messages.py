"""The messages of two keepers that transfer a node's mounts. Packets to values and back, and their receipt.

successor: hello{protocol, identity}
                    predecessor: wait (I am newer, with precedence) or coming (I am stopping my processes)
                    predecessor: offer{protocol, mounts: n}, with the descriptor of its fetcher's memory,
                                 then n mounts, each with its FUSE descriptor
successor: serving
                    predecessor: yours (I have closed mine; with the lock) or mine (too late: I continue)

`hello`, `offer` and what follows them never change, so that any two versions can speak; keepers of different protocols
hand over no mounts, and the successor makes new ones.

The holder (keeper/holder.py) gets `offer` and its mounts, and sends the same packets to a keeper that says `hello`.
"""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stoker_sidecar.errors import TakeoverFailed
from stoker_sidecar.linux import packets

PROTOCOL = 1
# The other keeper answers from its event loop, which starting a child may block for half a second.
ANSWER_SECONDS = 10.0
HELLO = "hello"
WAIT = "wait"
COMING = "coming"
SERVING = "serving"
YOURS = "yours"
MINE = "mine"
_KIND = "kind"
Packet = dict[str, Any]


@dataclass(frozen=True)
class Hello:
    """The first packet of a successor: its identity and protocol."""

    identity: str
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class Offer:
    """The predecessor's answer: the number of mounts that follow."""

    mounts: int
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class MountRow:
    """One mount of an offer; its descriptor goes with the packet. ``ready`` means that a server answered it."""

    uid: str
    digest: str
    manifest: str
    version_dir: str
    mountpoint: str
    ready: bool


def word(kind: str) -> Packet:
    """Return a packet that contains only its kind."""
    return {_KIND: kind}


def kind_of(packet: Mapping[str, Any]) -> str:
    """Return the kind of a packet."""
    return str(packet.get(_KIND))


def hello(message: Hello) -> Packet:
    """Return the packet."""
    return {_KIND: HELLO} | asdict(message)


def offer(message: Offer) -> Packet:
    """Return the packet."""
    return {_KIND: "offer"} | asdict(message)


def mount(row: MountRow) -> Packet:
    """Return the packet."""
    return {_KIND: "mount"} | asdict(row)


def parse_hello(packet: Mapping[str, Any]) -> Hello:
    """Parse the packet. Raises TakeoverFailed."""
    return Hello(str(_field(packet, HELLO, "identity", str)), int(_field(packet, HELLO, "protocol", int)))


def parse_offer(packet: Mapping[str, Any]) -> Offer:
    """Parse the packet. Raises TakeoverFailed."""
    return Offer(int(_field(packet, "offer", "mounts", int)), int(_field(packet, "offer", "protocol", int)))


def parse_mount(packet: Mapping[str, Any]) -> MountRow:
    """Parse the packet. Raises TakeoverFailed."""
    texts = {name: str(_field(packet, "mount", name, str)) for name in MountRow.__annotations__ if name != "ready"}
    return MountRow(**texts, ready=bool(_field(packet, "mount", "ready", bool)))


def _field(packet: Mapping[str, Any], kind: str, name: str, of: type) -> Any:
    value = packet.get(name)
    if kind_of(packet) != kind or not isinstance(value, of):
        raise TakeoverFailed(f"the other keeper sent {dict(packet)!r} where {kind!r} with {name!r} was due")
    return value


def registered(order: list[str], identity: str) -> list[str]:
    """Return the node's keepers by age, oldest first, after ``identity`` starts. A known keeper keeps its place."""
    return order if identity in order else [*order[-_REMEMBERED:], identity]


def is_newer(order: list[str], one: str, other: str) -> bool:
    """Return True if ``one`` came to this node after ``other``. Unknown keepers came first."""
    places = {identity: place for place, identity in enumerate(order)}
    return places.get(one, -1) > places.get(other, -1)


# Two pods of one node can live at the same time. The rest allows a clean answer to a very late one.
_REMEMBERED = 50


async def receive_within(connection: socket.socket, seconds: float | None) -> tuple[packets.Packet, list[int]]:
    """Receive on the running event loop. ``seconds`` None waits forever.

    Raises TimeoutError, EOFError at the end of the connection, OSError and ValueError.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may lose a cancellation
            await readable.wait()
    finally:
        loop.remove_reader(connection)
    return packets.receive(connection)
