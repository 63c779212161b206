"""Maps of pieces survive the wire. Invalid maps are rejected, and sizes are bounded."""

import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap, pack_maps, unpack_maps

NAME = "7.0123abcd"


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=50), max_size=20))
def test_what_is_packed_is_unpacked(pieces: dict[int, bytes]) -> None:
    maps = {ino: PieceMap(f"{ino}.{ino % 2**32:08x}", found) for ino, found in pieces.items()}
    assert unpack_maps(pack_maps(maps.values())) == maps


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(packed: bytes) -> None:
    for text in (packed, zlib.compress(packed)):
        with suppress(ValueError):
            unpack_maps(text)


@pytest.mark.parametrize("cut", [1, 11, 13])
def test_a_map_that_ends_too_soon_is_refused(cut: int) -> None:
    whole = zlib.decompress(pack_maps([PieceMap(NAME, b"\1\0\1")]))
    with pytest.raises(ValueError, match="end within one"):
        unpack_maps(zlib.compress(whole[:cut]))


def test_what_unpacks_to_more_than_may_be_is_not_unpacked() -> None:
    with pytest.raises(ValueError, match="end within one"):
        unpack_maps(zlib.compress((b"\0" * 8 + b"\xff\xff\xff\x7f") + bytes(100 * 2**20)))


def test_maps_that_do_not_fit_are_left_out() -> None:
    maps = [PieceMap(f"{ino}.0123abcd", b"\1" * 2**20) for ino in range(10)]
    assert 0 < len(unpack_maps(pack_maps(maps))) < 10
