"""Pipes that can carry data from one process to another."""

import os
from collections.abc import Iterator

import pytest

from stoker_sidecar.agent.observation.loaders.pipes import PipeEnds, descriptor, is_pipe, pipes_of, queues_between

READS, WRITES, BOTH = PipeEnds(reads=True), PipeEnds(writes=True), PipeEnds(reads=True, writes=True)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reads, writes = os.pipe()
    yield reads, writes
    os.close(reads)
    os.close(writes)


def test_both_ends_of_a_pipe_are_told_apart(pipe: tuple[int, int]) -> None:
    name = descriptor(os.getpid(), pipe[0])
    assert is_pipe(name)
    assert pipes_of(os.getpid())[name] == BOTH


def test_one_end_is_one_end() -> None:
    reads, writes = os.pipe()
    os.close(writes)
    try:
        assert pipes_of(os.getpid())[descriptor(os.getpid(), reads)] == READS
    finally:
        os.close(reads)


@pytest.mark.parametrize("target", ["", "/data/pipe:[7]", "socket:[7]", "anon_inode:[eventpoll]"])
def test_what_is_no_pipe_is_none(target: str) -> None:
    assert not is_pipe(target)


def test_a_descriptor_that_is_not_open_is_nothing() -> None:
    assert descriptor(os.getpid(), 10**6) == ""


@pytest.mark.parametrize(
    ("reader", "parent", "found"),
    [
        ({"q": WRITES}, {"q": BOTH}, {"q"}),
        ({"q": BOTH}, {"q": BOTH}, {"q"}),  # forked, with all descriptors open
        ({"q": WRITES}, {"q": READS}, set()),  # waits for the end of a process
        ({"q": READS}, {"q": BOTH}, set()),  # a queue of work
        ({"q": BOTH}, {}, set()),
        ({}, {"q": BOTH}, set()),
    ],
)
def test_a_queue_is_a_pipe_of_which_the_parent_kept_both_ends(
    reader: dict[str, PipeEnds], parent: dict[str, PipeEnds], found: set[str]
) -> None:
    assert queues_between(reader, parent) == found
