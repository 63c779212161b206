"""Counts of opens and reads in a FUSE server."""

import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from stoker_sidecar.fuse.access_log import AccessLog
from stoker_sidecar.linux import packets
from stoker_sidecar.wire.access_protocol import MOST_ROWS, parse_batch


@pytest.fixture
def log() -> AccessLog:
    return AccessLog("u1", "d1")


def test_what_is_read_before_the_agent_answers_is_told_to_it(log: AccessLog) -> None:
    log.opened(7, 1)
    log._take({"op": "count", "on": True})
    assert log.batch().opens == 1


def test_nothing_is_counted_once_the_agent_wants_nothing(log: AccessLog) -> None:
    log._take({"op": "count", "on": False})
    log.opened(7, 1)
    assert not log.begin_read(7, 0, 4096)
    log._take({"op": "count", "on": True})
    assert log.batch().opens == log.batch().reads == 0


def test_a_batch_has_each_open_and_read_in_order(log: AccessLog) -> None:
    log.opened(7, 77)
    log.begin_read(7, 4096, 512)
    log.end_read()
    batch = log.batch()
    assert [row[1:] for row in batch.rows] == [(7, 0, 0, 77), (7, 4096, 512, 0)]
    assert (batch.opens, batch.reads, batch.bytes, batch.share) == (1, 1, 512, 1.0)


def test_a_batch_begins_where_the_last_one_ended(log: AccessLog) -> None:
    log.opened(7, 77)
    first, second = log.batch(), log.batch()
    assert (second.since, second.opens, list(second.rows)) == (first.until, 0, [])


def test_what_has_no_room_is_counted_all_the_same(log: AccessLog) -> None:
    for number in range(MOST_ROWS + 10):
        log.opened(number, 1)
    batch = log.batch()
    assert (batch.opens, len(batch.rows)) == (MOST_ROWS + 10, MOST_ROWS)


def test_readers_wait_while_at_least_one_read_is_not_answered(log: AccessLog, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 2.0, 4.0, 10.0])  # begin, begin, the last end, the batch
    monkeypatch.setattr("stoker_sidecar.fuse.access_log.time.monotonic", lambda: next(clock))
    log.begin_read(7, 0, 1)
    log.begin_read(8, 0, 1)
    log.end_read()
    log.end_read()
    assert log.batch().waited == 3.0


def test_a_read_under_way_is_waited_for_in_both_batches(log: AccessLog, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 3.0, 4.0, 10.0])  # begin, batch, end, batch
    monkeypatch.setattr("stoker_sidecar.fuse.access_log.time.monotonic", lambda: next(clock))
    log.begin_read(7, 0, 1)
    assert log.batch().waited == 2.0
    log.end_read()
    assert log.batch().waited == 1.0


def test_the_agent_is_told_who_speaks_and_then_what_was_read(tmp_path: Path) -> None:
    path, log = tmp_path / "accesses.sock", AccessLog("u1", "d1")

    def agent(listener: socket.socket) -> tuple[packets.Packet, int]:
        connection, _ = listener.accept()
        with connection:
            hello, _ = packets.receive(connection)
            packets.send(connection, {"op": "count", "on": True})
            while not (batch := parse_batch(packets.receive(connection)[0])).opens:
                pass
            return hello, batch.opens

    async def server() -> tuple[packets.Packet, int]:
        async def read() -> None:
            while True:
                log.opened(7, 1)
                await trio.sleep(0.01)

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(log.run, path)
                nursery.start_soon(read)
                found = await trio.to_thread.run_sync(agent, listener)
                nursery.cancel_scope.cancel()
        return found

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        hello, opens = trio.run(server)
    assert hello == {"op": "hello", "from": "fuse", "uid": "u1", "digest": "d1"}
    assert opens > 0


@pytest.mark.parametrize(("opens", "seconds"), [(1, 0.25), (0, 1.0)])
def test_what_is_opened_is_told_soon_and_that_nothing_is_once_a_second(
    tmp_path: Path, opens: int, seconds: float
) -> None:
    path, log = tmp_path / "accesses.sock", AccessLog("u1", "d1")

    async def first_batch(listener: socket.socket) -> tuple[int, float]:
        await trio.lowlevel.wait_readable(listener)
        connection, _ = listener.accept()
        with connection:
            packets.receive(connection)
            packets.send(connection, {"op": "count", "on": True})
            await trio.testing.wait_all_tasks_blocked()
            asked = trio.current_time()
            for number in range(opens):
                log.opened(number, 1)
            await trio.lowlevel.wait_readable(connection)
            return parse_batch(packets.receive(connection)[0]).opens, trio.current_time() - asked

    async def conversation(listener: socket.socket) -> tuple[int, float]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.run, path)
            found = await first_batch(listener)
            nursery.cancel_scope.cancel()
        return found

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        found, after = trio.run(conversation, listener, clock=trio.testing.MockClock(autojump_threshold=0.01))
    assert found == opens
    assert after == pytest.approx(seconds)
