"""The fetcher's memory moves from one keeper to the next."""

import os

import pytest

from stoker_sidecar.keeper.supervisor import StateMemory

_FAR = 1 << 30  # offset of the second half of the state
_PARTS = {0: b"first", 70_000: os.urandom(200_000), _FAR: b"second"}


def test_all_of_it_is_taken_and_holes_stay_holes() -> None:
    old, new = StateMemory(), StateMemory()
    for offset, data in _PARTS.items():
        os.pwrite(old.fd, data, offset)
    new.take(os.dup(old.fd))
    assert {offset: os.pread(new.fd, len(data), offset) for offset, data in _PARTS.items()} == _PARTS
    assert os.fstat(new.fd).st_blocks == os.fstat(old.fd).st_blocks
    old.close()
    new.close()


def test_what_was_taken_is_closed() -> None:
    memory, other = StateMemory(), StateMemory()
    memory.take(other.fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(other.fd)
    memory.close()
