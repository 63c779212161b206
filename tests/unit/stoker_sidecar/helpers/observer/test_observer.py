"""Requests and reports of the observer to the agent, with pipes in place of the kernel's queues."""

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.helpers.observer.observer import Observer
from stoker_sidecar.linux import packets
from stoker_sidecar.version.manifest import Manifest
from tests.support.versions import VersionFolder

HANDLE = struct.pack("=Ii8s", 8, 1, b"folder-1")
RATE = 0.01


def opened(name: bytes) -> bytes:
    record = bytes(8) + HANDLE + name + b"\0"
    record = struct.pack("=BBH", 2, 0, 4 + len(record)) + record
    return struct.pack("=IBBHQii", 24 + len(record), 3, 0, 24, 0x20, -1, 7) + record


@dataclass
class AgentSide:
    """The agent's end of the connection, and the time and the CPU of the observer."""

    folder: Path
    now: float = 100.0
    cpu: float = 0.0
    queues: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for connection in (self.end, ours):
            connection.setblocking(False)
        self.observer = Observer(ours, RATE, lambda: self.now, lambda: self.cpu)
        self.version = VersionFolder(self.folder / "v", {"a": b"1", "b": b"2"})

    def watch(self, number: int = 1) -> None:
        """Give the observer a tree whose root is the only folder."""
        group, self.queues[number] = os.pipe2(os.O_NONBLOCK)
        table = os.memfd_create("table")
        os.write(table, HANDLE.hex().encode() + b" 1\n")
        packet = {"op": "watch", "watch": number, "manifest": str(self.version.manifest), "share": 0.5}
        self.observer.take(packet, [group, table])

    def said(self) -> list[dict[str, Any]]:
        """Return the messages of the observer since the last call."""
        found = []
        while True:
            try:
                found.append(packets.receive(self.end)[0])
            except BlockingIOError:
                return found

    def marked(self, cpu: float = 0.0) -> None:
        """Answer that marks are on."""
        self.observer.take({"op": "marked", "on": True, "cpu": cpu}, [])

    def begin(self) -> None:
        """Give the observer a tree, and answer its request for marks."""
        self.watch()
        self.step()
        self.marked()
        self.said()

    def step(self, seconds: float = 0.0) -> float:
        self.now += seconds
        return self.observer.step()

    def close(self) -> None:
        self.observer.close()
        self.end.close()
        for queue in self.queues.values():
            os.close(queue)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentSide]:
    side = AgentSide(tmp_path)
    yield side
    side.close()


def test_without_a_tree_it_asks_for_nothing_and_sleeps(agent: AgentSide) -> None:
    assert agent.step(1.0) >= 10.0
    assert agent.said() == []


def test_it_asks_for_marks_and_looks_when_they_are_on(agent: AgentSide) -> None:
    agent.watch()
    agent.step()
    assert agent.said() == [{"op": "marks", "on": True}]
    agent.marked()
    os.write(agent.queues[1], opened(b"a") + opened(b"b") + opened(b"absent"))
    agent.step(0.5)
    agent.step(0.5)
    (batch,) = agent.said()
    manifest = Manifest.open(agent.version.manifest)
    assert [manifest.path(row[1]) for row in batch["rows"]] == ["a", "b"]
    manifest.close()
    assert (batch["opens"], batch["share"], batch["files"]) == (2, pytest.approx(0.5), 0.5)


def test_what_was_queued_before_the_marks_were_on_is_thrown_away(agent: AgentSide) -> None:
    agent.watch()
    agent.step()
    os.write(agent.queues[1], opened(b"a"))
    agent.marked()
    agent.step(0.5)
    agent.step(5.0)
    (batch,) = (said for said in agent.said() if said["op"] == "accesses")
    assert batch["opens"] == 0


def test_a_spent_budget_has_the_marks_taken_off_until_half_of_it_is_saved(agent: AgentSide) -> None:
    agent.begin()
    agent.cpu += 0.05
    agent.step(0.1)
    assert {"op": "marks", "on": False} in agent.said()
    assert not [said for said in (agent.step(2.0), agent.said())[1] if said["op"] == "marks"]
    agent.step(4.0)
    assert {"op": "marks", "on": True} in agent.said()


def test_what_was_looked_at_is_told_when_the_marks_come_off_and_stands_for_no_rest_after(agent: AgentSide) -> None:
    agent.begin()
    os.write(agent.queues[1], opened(b"a"))
    agent.step(0.25)
    agent.cpu += 0.05
    agent.step()
    batch, _ = batch_and_marks(agent)
    assert (batch["until"] - batch["since"], batch["share"]) == (pytest.approx(0.25), 0.5)


def test_what_is_seen_after_a_rest_stands_for_the_rest_too(agent: AgentSide) -> None:
    agent.begin()
    agent.cpu += 0.05
    agent.step()
    agent.step(3.0)  # it rests without a report
    agent.step(4.0)
    assert [(said["op"], said["on"]) for said in agent.said()] == [("marks", False), ("marks", True)]
    agent.marked()
    os.write(agent.queues[1], opened(b"a"))
    agent.step(0.5)
    (batch,) = agent.said()
    assert (batch["opens"], batch["until"] - batch["since"]) == (1, pytest.approx(7.5))
    assert batch["share"] == pytest.approx(0.5 / 7.5 * 0.5)


def test_of_a_flood_all_is_counted_and_a_part_of_it_looked_at(agent: AgentSide) -> None:
    agent.begin()
    fcntl.fcntl(agent.queues[1], fcntl.F_SETPIPE_SZ, 1 << 20)
    os.write(agent.queues[1], (opened(b"a") + opened(b"absent")) * 5000)
    agent.step(0.5)
    agent.step(0.5)
    batches = [said for said in agent.said() if said["op"] == "accesses"]
    assert (sum(batch["opens"] for batch in batches), sum(batch["lost"] for batch in batches)) == (5000, 0)
    assert sum(len(batch["rows"]) for batch in batches) < 1000


def test_events_that_cost_readers_too_much_end_a_spell_though_the_observer_used_nothing(agent: AgentSide) -> None:
    agent.begin()
    flood(agent, 6000)
    agent.step(0.1)
    agent.step(0.01)
    assert {"op": "marks", "on": False} in agent.said()


def test_events_of_the_time_until_marks_are_off_are_paid_by_rest(agent: AgentSide) -> None:
    agent.begin()
    flood(agent, 6000)
    agent.step(0.1)
    agent.step(0.01)
    flood(agent, 6000)
    agent.observer.take({"op": "marked", "on": False, "cpu": 0.0}, [])
    agent.said()
    agent.step(12.0)  # 9 s were enough for the first 6,000
    assert not [said for said in agent.said() if said["op"] == "marks"]
    agent.step(7.0)
    assert {"op": "marks", "on": True} in agent.said()


def flood(agent: AgentSide, opens: int) -> None:
    fcntl.fcntl(agent.queues[1], fcntl.F_SETPIPE_SZ, 1 << 20)
    os.write(agent.queues[1], opened(b"a") * opens)


def test_the_first_look_after_a_rest_does_not_stand_for_it_alone(agent: AgentSide) -> None:
    agent.watch()
    agent.step(10.0)
    agent.marked()
    os.write(agent.queues[1], opened(b"a"))
    agent.step(0.01)
    assert not [said for said in agent.said() if said["op"] == "accesses"]


def test_marks_that_cost_more_than_is_saved_are_looked_at_and_paid_by_rest(agent: AgentSide) -> None:
    agent.watch()
    agent.step()
    agent.said()
    agent.marked(cpu=0.2)
    os.write(agent.queues[1], opened(b"a"))
    agent.step(0.5)
    agent.cpu += 0.06
    agent.step(0.5)
    batch, off = batch_and_marks(agent)
    assert (batch["opens"], off) == (1, {"op": "marks", "on": False})
    agent.step(20.0)
    assert not [said for said in agent.said() if said["op"] == "marks"]
    agent.step(10.0)
    assert {"op": "marks", "on": True} in agent.said()


def batch_and_marks(agent: AgentSide) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the batch and the request for marks in its messages."""
    said = agent.said()
    return next(one for one in said if one["op"] == "accesses"), next(one for one in said if one["op"] == "marks")


@pytest.mark.parametrize(
    "packet",
    [{}, {"op": "watch", "watch": 1}, {"op": "marked", "on": 1, "cpu": 0.0}, {"op": "unwatch", "watch": "1"}],
)
def test_what_no_agent_says_is_refused_and_its_descriptors_closed(agent: AgentSide, packet: dict[str, Any]) -> None:
    given = os.memfd_create("given")
    with pytest.raises(ValueError, match="which an observer does not know"):
        agent.observer.take(packet, [given])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(given)


@pytest.mark.expected_logs("is not watched")
def test_a_tree_whose_manifest_is_gone_is_left_out(agent: AgentSide) -> None:
    agent.version.manifest.unlink()
    agent.watch()
    agent.step()
    assert agent.said() == []
