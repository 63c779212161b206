"""The kernel's reports of opened files, as bytes."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.linux.fanotify import Drained, Opened, parse

HANDLE = struct.pack("=Ii8s", 8, 1, b"\x2c\xe0\x0b\x00\x26\x8b\xd4\x7c")
OVERFLOW = struct.pack("=IBBHQii", 24, 3, 0, 24, 0x4000, -1, 0)


def event(name: bytes, pid: int = 7) -> bytes:
    record = bytes(8) + HANDLE + name + b"\0"  # fsid, handle, name
    record += bytes(-(4 + len(record)) % 4)
    record = struct.pack("=BBH", 2, 0, 4 + len(record)) + record
    return struct.pack("=IBBHQii", 24 + len(record), 3, 0, 24, 0x20, -1, pid) + record


def test_an_event_names_folder_file_and_reader() -> None:
    assert parse(event(b"x", 7) + event(b"a\nlong name \xff", 0), 9) == Drained(
        [Opened(HANDLE, b"x", 7), Opened(HANDLE, b"a\nlong name \xff", 0)], 2, whole=True
    )


def test_an_overflow_is_told() -> None:
    assert parse(event(b"x") + OVERFLOW, 9) == Drained([Opened(HANDLE, b"x", 7)], 1, whole=False)


@given(st.binary(max_size=200))
def test_other_bytes_are_refused_or_read_and_never_loop(data: bytes) -> None:
    with suppress(ValueError, struct.error):
        parse(data, 9)


def test_an_event_shorter_than_its_head_is_refused() -> None:
    with pytest.raises(ValueError, match="an event of 0 bytes"):
        parse(bytes(24), 9)
