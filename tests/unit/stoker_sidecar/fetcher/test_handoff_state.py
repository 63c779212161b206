"""The state that a fetcher takes over from its predecessor, in a memory file."""

import os
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from stoker_sidecar.fetcher.handoff_state import HandoffState, pack, unpack
from stoker_sidecar.wire.credentials import StaticCredentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Shares, decode_request, encode_request

LOG = 2 << 30  # start of the log
PEM = "-----BEGIN CERTIFICATE-----\n" + "A" * 65_000


def _request(uid: str, secret: str = "s") -> Configure:
    return Configure({"uid": uid}, StaticCredentials("key", secret), ("v1",))


@pytest.fixture
def memory() -> Iterator[int]:
    fd = os.memfd_create("test")
    yield fd
    os.close(fd)


def test_the_first_fetcher_remembers_nothing(memory: int) -> None:
    assert HandoffState(memory).requests == []


def test_without_memory_nothing_outlives_the_process() -> None:
    HandoffState(None).configured(_request("a"))
    assert HandoffState(None).requests == []


def test_the_next_fetcher_knows_the_last_request_of_each_dataset(memory: int) -> None:
    first = HandoffState(memory)
    for request in (_request("a"), _request("b"), _request("a", "new")):
        first.configured(request)
    assert HandoffState(memory).requests == [_request("a", "new"), _request("b")]


def test_the_next_fetcher_knows_the_last_shares(memory: int) -> None:
    first = HandoffState(memory)
    first.configured(_request("a"))
    for rate in (1, 2):
        first.shared(Shares(({"name": "*", "bytesPerSecond": rate},)))
    assert HandoffState(memory).shares == [Shares(({"name": "*", "bytesPerSecond": 2},))]
    assert HandoffState(memory).requests == [_request("a")]


def test_a_removed_dataset_is_forgotten(memory: int) -> None:
    first = HandoffState(memory)
    first.configured(_request("a"))
    first.removed("a")
    assert HandoffState(memory).requests == []


def test_each_fetcher_goes_on_where_the_one_before_ended(memory: int) -> None:
    for uid in "abc":
        HandoffState(memory).configured(_request(uid))
    assert [request.dataset["uid"] for request in HandoffState(memory).requests] == ["a", "b", "c"]


@pytest.mark.parametrize("written", [0, 10, 25, 40])
def test_a_record_that_was_killed_in_mid_write_leaves_what_was_there_before(memory: int, written: int) -> None:
    first = HandoffState(memory)
    first.configured(_request("a"))
    size = os.fstat(memory).st_size
    first.configured(_request("b"))
    end = max(size, LOG) + written
    os.ftruncate(memory, end)
    assert HandoffState(memory).requests == [_request("a")]
    HandoffState(memory).configured(_request("c"))
    assert HandoffState(memory).requests == [_request("a"), _request("c")]


def test_a_snapshot_that_was_killed_in_mid_write_leaves_the_one_before_with_its_log(memory: int) -> None:
    first = HandoffState(memory)
    for uid in "abc":
        first.configured(_request(uid))
    first.close()  # the second snapshot, at the front
    os.pwrite(memory, b"\xff", len(pack(2, b"")) + 5)
    assert [request.dataset["uid"] for request in HandoffState(memory).requests] == ["a", "b", "c"]


def test_a_log_of_another_snapshot_is_not_taken(memory: int) -> None:
    first = HandoffState(memory)
    for uid in "ab":
        first.configured(_request(uid))
    first.close()
    first.removed("a")
    first.close()  # as an earlier release leaves it: it knows only the halves
    assert [request.dataset["uid"] for request in HandoffState(memory).requests] == ["b"]


def test_what_an_earlier_release_left_is_taken_with_its_bundle_in_each_request(memory: int) -> None:
    old = Configure({"uid": "a"}, StaticCredentials("key", "s", "", PEM), ("v1",))
    os.pwrite(memory, pack(3, encode_request(0, old)), 1 << 30)
    assert HandoffState(memory).requests == [old]


def test_an_earlier_release_finds_in_the_half_what_a_fetcher_that_ended_knew(memory: int) -> None:
    state = HandoffState(memory)
    for uid in "abc":
        state.configured(_request(uid))
    state.removed("b")
    state.close()
    halves = [unpack(os.pread(memory, 1 << 20, offset)) for offset in (0, 1 << 30)]
    _, body = max(half for half in halves if half is not None)
    assert [decode_request(line)[1] for line in body.splitlines()] == [_request("a"), _request("c")]


def test_three_hundred_datasets_with_one_large_bundle_take_it_once(memory: int) -> None:
    state = HandoffState(memory)
    requests = [Configure({"uid": f"u{one}"}, StaticCredentials("a", "b", "", PEM)) for one in range(300)]
    tracemalloc.start()
    began = time.process_time()
    for request in requests:
        state.configured(request)
    took, grown = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert HandoffState(memory).requests == requests
    assert os.fstat(memory).st_blocks * 512 < 2 * 1024**2
    assert grown < 2 * 1024**2
    assert took / 300 < 0.01


def test_a_bundle_that_no_dataset_trusts_any_more_is_forgotten(memory: int) -> None:
    state = HandoffState(memory)
    state.configured(Configure({"uid": "a"}, StaticCredentials("a", "b", "", PEM)))
    state.configured(_request("a"))
    state.close()
    body = unpack(os.pread(memory, 1 << 20, 0))
    assert body is not None
    assert PEM[:100].encode() not in body[1]


@pytest.mark.expected_logs("takes more than 32 MiB")
def test_a_memory_that_is_too_large_is_dropped(memory: int) -> None:
    state = HandoffState(memory)
    for number in range(80):
        state.configured(Configure({"uid": f"{number}", "padding": "x" * 1024**2}, StaticCredentials("a", "b")))
    assert os.fstat(memory).st_size == 0
    assert HandoffState(memory).requests == []


@pytest.mark.expected_logs("what an earlier fetcher was told takes more than 32 MiB")
def test_a_memory_of_an_earlier_release_that_is_too_large_is_dropped_unread(memory: int) -> None:
    os.pwrite(memory, pack(1, b"x" * (32 * 1024**2 + 1)), 0)
    assert HandoffState(memory).requests == []
    assert os.fstat(memory).st_size == 0


@pytest.mark.parametrize("cut", [0, 5, 20, 22])
def test_a_half_that_is_cut_short_is_not_taken(cut: int) -> None:
    assert unpack(pack(7, b"body")[:cut]) is None


def test_a_whole_half_is_taken_whatever_an_older_one_left_behind_it() -> None:
    assert unpack(pack(7, b"body") + b"older and longer") == (7, b"body")
