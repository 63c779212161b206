"""Descriptors in the holder: their owners, and their lifetime."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.keeper.holder import DescriptorHolder
from stoker_sidecar.keeper.takeover import messages
from stoker_sidecar.linux import packets

ROW = messages.MountRow("uid", "digest", "/m", "/v", "/mnt/uid/digest", ready=True)


class World:
    """A holder with manual steps and a manual clock. A descriptor is the write end of a pipe."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self._clients: list[socket.socket] = []
        self.holder = DescriptorHolder(90, lambda: self.now)
        self._path = folder / "holder.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self._path))
        self._listener.listen()
        self.holder.watch(self._listener)

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.settimeout(5)
        client.connect(str(self._path))
        self._clients.append(client)
        self.holder.step(self._listener)
        return client

    def send(self, client: socket.socket, packet: packets.Packet, fds: tuple[int, ...] = ()) -> None:
        packets.send(client, packet, fds)
        packets.close_all(fds)
        self.holder.step(self._listener)

    def offer(self, client: socket.socket, count: int = 1) -> list[int]:
        """Offer mounts. Return the read ends of their pipes."""
        self.send(client, messages.offer(messages.Offer(count)), (os.memfd_create("memory"),))
        ends = []
        for _ in range(count):
            end, given = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self.send(client, messages.mount(ROW), (given,))
            ends.append(end)
        return ends

    def leave(self, client: socket.socket) -> None:
        client.close()
        self.holder.step(self._listener)

    def held(self) -> list[str]:
        """Return the kinds of the packets that a new keeper gets."""
        client = self.connect()
        self.send(client, messages.hello(messages.Hello("pod")))
        offer, fds = packets.receive(client)
        kinds = ["offer"]
        for _ in range(messages.parse_offer(offer).mounts):
            packet, more = packets.receive(client)
            assert messages.parse_mount(packet) == ROW
            kinds.append("mount")
            fds += more
        packets.close_all(fds)
        self.leave(client)
        return kinds

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.holder.close()
        self._listener.close()


def is_open(end: int) -> bool:
    """Return True if any process has the write end of the pipe open."""
    try:
        return os.read(end, 1) != b""
    except BlockingIOError:
        return True


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_keeper_gets_what_the_last_one_offered(world: World) -> None:
    world.offer(world.connect(), 2)
    assert world.held() == ["offer", "mount", "mount"]


def test_nothing_was_offered_yet(world: World) -> None:
    assert world.held() == ["offer"]


def test_a_new_offer_replaces_the_old_one(world: World) -> None:
    keeper = world.connect()
    (old,) = world.offer(keeper)
    (new,) = world.offer(keeper)
    assert (is_open(old), is_open(new)) == (False, True)


def test_an_offer_that_breaks_off_replaces_nothing(world: World) -> None:
    (held,) = world.offer(world.connect())
    other = world.connect()
    world.send(other, messages.offer(messages.Offer(2)), (os.memfd_create("memory"),))
    world.leave(other)
    assert is_open(held)
    assert world.held() == ["offer", "mount"]


@pytest.mark.parametrize(
    ("later", "kept"),
    [(89, True), pytest.param(90, False, marks=pytest.mark.expected_logs("no keeper came within 90 s"))],
)
def test_descriptors_are_closed_some_time_after_their_keeper_has_gone(world: World, later: float, kept: bool) -> None:
    keeper = world.connect()
    (end,) = world.offer(keeper)
    world.leave(keeper)
    world.now += later
    world.connect()  # a step
    assert is_open(end) is kept


def test_descriptors_stay_while_their_keeper_lives(world: World) -> None:
    (end,) = world.offer(world.connect())
    world.now += 10_000
    world.connect()
    assert is_open(end)


def test_a_keeper_that_went_before_the_last_offer_ends_nothing(world: World) -> None:
    predecessor, successor = world.connect(), world.connect()
    world.offer(predecessor)
    (end,) = world.offer(successor)
    world.leave(predecessor)
    world.now += 10_000
    world.connect()
    assert is_open(end)


@pytest.mark.expected_logs("a keeper was sent away")
@pytest.mark.parametrize(
    "packet",
    [messages.offer(messages.Offer(10**6)), messages.offer(messages.Offer(-1)), messages.mount(ROW), {"kind": "odd"}],
    ids=["too many mounts", "fewer than none", "a mount without an offer", "unknown"],
)
def test_what_is_no_offer_is_refused_and_replaces_nothing(world: World, packet: packets.Packet) -> None:
    (held,) = world.offer(world.connect())
    world.send(world.connect(), packet, (os.memfd_create("memory"),))
    assert is_open(held)


@pytest.mark.expected_logs("0 descriptors came")
def test_a_packet_without_its_descriptor_is_refused(world: World) -> None:
    (held,) = world.offer(world.connect())
    world.send(world.connect(), messages.offer(messages.Offer(0)))
    assert is_open(held)
