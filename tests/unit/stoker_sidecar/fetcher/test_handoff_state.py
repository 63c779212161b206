"""What a fetcher remembers of the one before it, in a memory file."""

import os
from collections.abc import Iterator

import pytest

from stoker_sidecar.fetcher.handoff_state import HandoffState, pack, unpack
from stoker_sidecar.wire.credentials import StaticCredentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Shares


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


def test_what_was_killed_in_mid_write_leaves_what_was_there_before(memory: int) -> None:
    first = HandoffState(memory)
    first.configured(_request("a"))
    size = os.fstat(memory).st_size
    first.configured(_request("b"))
    os.pwrite(memory, b"\xff", len(pack(2, b"")) + 5)  # the second write is the one at the front
    assert size > 2**30
    assert HandoffState(memory).requests == [_request("a")]


@pytest.mark.parametrize("cut", [0, 5, 20, 22])
def test_a_half_that_is_cut_short_is_not_taken(cut: int) -> None:
    assert unpack(pack(7, b"body")[:cut]) is None


def test_a_whole_half_is_taken_whatever_an_older_one_left_behind_it() -> None:
    assert unpack(pack(7, b"body") + b"older and longer") == (7, b"body")
