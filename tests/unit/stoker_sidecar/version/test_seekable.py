"""The layout of compressed copies: written copies are read back, and any other content is rejected."""

import os
from array import array
from contextlib import suppress
from itertools import pairwise

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.version.seekable import (
    FRAME,
    FramePacker,
    decode_table,
    encode_table,
    frame_count,
    frame_length,
    table_length,
    unpack,
)

_CONTENT = st.binary(max_size=200).flatmap(lambda seed: st.integers(0, 2000).map(lambda times: seed * times))
_TEXT = b"some words, and some words again " * 2000
_FRAME = FramePacker(3).pack(_TEXT)


def packed(data: bytes, level: int = 1) -> bytes:
    packer = FramePacker(level)
    frames = [packer.pack(data[start : start + FRAME]) for start in range(0, len(data), FRAME)]
    return b"".join(frames) + encode_table([len(frame) for frame in frames], len(data))


def table_of(copy: bytes, size: int) -> "array[int]":
    return decode_table(copy[-table_length(size) :], size, len(copy))


def read_back(copy: bytes, size: int) -> bytes:
    spans = pairwise(table_of(copy, size))
    return b"".join(unpack(copy[start:end], frame_length(size, frame)) for frame, (start, end) in enumerate(spans))


@given(_CONTENT, st.integers(1, 5))
def test_what_is_packed_reads_back(data: bytes, level: int) -> None:
    assert read_back(packed(data, level), len(data)) == data


def test_any_reader_of_zstd_reads_a_copy() -> None:
    data = os.urandom(FRAME + 7)
    assert zstd.decompress(packed(data)) == data


@pytest.mark.parametrize(("size", "frames"), [(0, 0), (1, 1), (FRAME, 1), (FRAME + 1, 2)])
def test_a_file_has_a_frame_for_each_128_kib(size: int, frames: int) -> None:
    assert frame_count(size) == frames
    assert sum(frame_length(size, frame) for frame in range(frames)) == size


@settings(max_examples=300)
@given(st.integers(0, len(_FRAME) - 1), st.integers(1, 255))
def test_a_frame_with_another_byte_is_refused_or_reads_the_same(place: int, change: int) -> None:
    damaged = bytearray(_FRAME)
    damaged[place] ^= change
    with suppress(OSError):
        assert unpack(bytes(damaged), len(_TEXT)) == _TEXT


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        _FRAME[:4],
        _FRAME[:-1],
        _FRAME + b"x",
        _FRAME + _FRAME,
        FramePacker(3).pack(_TEXT + b"more"),
        FramePacker(3).pack(_TEXT[1:]),
        zstd.compress(_TEXT),  # without a checksum
        b"\x28\xb5\x2f\xfd\xa4\xff\xff\xff\xff",  # claims to need 4 GiB
        FramePacker(1).pack(bytes(100 * 2**20)),  # a bomb
    ],
    ids=["empty", "head", "cut", "tail", "two", "longer", "shorter", "unchecked", "huge", "bomb"],
)
def test_a_frame_that_is_not_just_these_bytes_is_refused(frame: bytes) -> None:
    with pytest.raises(OSError, match="damaged"):
        unpack(frame, len(_TEXT))


@given(st.data())
def test_a_table_with_another_byte_is_refused(data: st.DataObject) -> None:
    size = 3 * FRAME + 5
    table = bytearray(encode_table([100, 200, 300, 40], size))
    table[data.draw(st.integers(0, len(table) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(OSError, match="damaged"):
        decode_table(bytes(table), size, 640 + len(table))


@pytest.mark.parametrize(("size", "packed_size"), [(2 * FRAME + 6, 0), (2 * FRAME + 5, 1), (FRAME, 0)])
def test_a_table_of_another_file_or_of_another_length_is_refused(size: int, packed_size: int) -> None:
    table = encode_table([100, 200, 300], 2 * FRAME + 5)
    with pytest.raises(OSError, match="damaged"):
        decode_table(table, size, 600 + len(table) + packed_size)


@given(st.binary(max_size=200), st.integers(0, 4 * FRAME), st.integers(0, 2**40))
def test_no_bytes_are_taken_for_a_table_with_anything_but_an_oserror(table: bytes, size: int, packed_size: int) -> None:
    with pytest.raises(OSError, match="damaged"):
        decode_table(table, size, packed_size)
