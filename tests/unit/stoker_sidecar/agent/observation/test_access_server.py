"""The agent's socket for accesses, and its permitted senders."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.agent.observation.access_server import AccessClient, AccessServer
from stoker_sidecar.linux import packets
from stoker_sidecar.wire.access_protocol import AccessBatch
from tests.support.cases import cases
from tests.support.waiting import eventually

BATCH = AccessBatch(1, 1.0, 2.0, 1.0, 3).packet()
FUSE = {"op": "hello", "from": "fuse", "uid": "u1", "digest": "d1"}
OBSERVER = {"op": "hello", "from": "observer"}


@dataclass
class Heard:
    """Batches forwarded by the server, and sockets connected to it."""

    path: Path
    stack: ExitStack
    observers: list[AccessClient | None] = field(default_factory=list)
    asked: list[bool] = field(default_factory=list)
    batches: list[tuple[tuple[str, str] | None, AccessBatch]] = field(default_factory=list)
    uncounted: set[str] = field(default_factory=set)

    def connect(self, *said: dict[str, Any]) -> socket.socket:
        connection = self.stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        connection.connect(str(self.path))
        connection.setblocking(False)
        for packet in said:
            packets.send(connection, packet)
        return connection


@pytest.fixture
async def heard(tmp_path: Path) -> AsyncIterator[tuple[Heard, AccessServer]]:
    with ExitStack() as stack:
        heard = Heard(tmp_path / "accesses.sock", stack)
        server = AccessServer(
            heard.path,
            on_observer=heard.observers.append,
            on_asked=heard.asked.append,
            on_batch=lambda client, batch: heard.batches.append((client.version, batch)),
            is_counted=lambda uid: uid not in heard.uncounted,
        )
        with server.serving():
            yield heard, server


def ended(connection: socket.socket) -> Callable[[], bool]:
    def look() -> bool:
        try:
            packets.receive(connection)
        except EOFError:
            return True
        except BlockingIOError:
            return False
        return False

    return look


async def told(connection: socket.socket) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def look() -> bool:
        try:
            found.append(packets.receive(connection)[0])
        except BlockingIOError:
            return False
        return True

    await eventually(look)
    return found[0]


async def test_a_fuse_server_is_told_whether_to_count_and_heard(heard: tuple[Heard, AccessServer]) -> None:
    node, server = heard
    connection = node.connect(FUSE, BATCH)
    assert await told(connection) == {"op": "count", "on": True}
    await eventually(lambda: bool(node.batches))
    assert node.batches[0][0] == ("u1", "d1")
    node.uncounted.add("u1")
    server.tell_counting()
    assert await told(connection) == {"op": "count", "on": False}


async def test_the_observer_is_known_and_missed_when_it_goes(heard: tuple[Heard, AccessServer]) -> None:
    node, _ = heard
    connection = node.connect(OBSERVER, {"op": "marks", "on": True})
    await eventually(lambda: node.asked == [True])
    connection.close()
    await eventually(lambda: node.observers[-1] is None)


async def test_a_new_observer_takes_the_place_of_the_old_one(heard: tuple[Heard, AccessServer]) -> None:
    node, _ = heard
    first = node.connect(OBSERVER)
    await eventually(lambda: len(node.observers) == 1)
    node.connect(OBSERVER)
    await eventually(ended(first))
    assert node.observers[-1] is not None


@pytest.mark.expected_logs("is disconnected")
@cases(
    "said",
    (BATCH,),
    ({"op": "marks", "on": True},),
    (FUSE, {"op": "marks", "on": True}),
    (FUSE, BATCH | {"opens": -1}),
    ({"op": "hello", "from": "fuse", "uid": 7, "digest": "d1"},),
    ({"op": "hello", "from": ["observer"]},),
    (OBSERVER, {"op": "marks", "on": "yes"}),
)
async def test_who_says_what_is_not_theirs_to_say_is_disconnected(
    heard: tuple[Heard, AccessServer], said: tuple[dict[str, Any], ...]
) -> None:
    node, _ = heard
    await eventually(ended(node.connect(*said)))
    assert node.batches == []
    assert node.asked == []


@pytest.mark.expected_logs("is disconnected")
async def test_bytes_that_are_no_packet_end_the_connection(heard: tuple[Heard, AccessServer]) -> None:
    node, _ = heard
    connection = node.connect()
    connection.send(b"\xff\x00")
    await eventually(ended(connection))


async def test_the_socket_is_for_root_and_the_group_of_its_folder(heard: tuple[Heard, AccessServer]) -> None:
    node, _ = heard
    assert node.path.stat().st_mode & 0o777 == 0o660
    assert node.path.stat().st_gid == node.path.parent.stat().st_gid
