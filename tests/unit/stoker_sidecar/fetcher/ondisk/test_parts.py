"""Unfinished files, their chunks, and the known facts about them."""

from pathlib import Path

import pytest
from awscrt.checksums import crc64nvme
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.ondisk.parts import CHUNK, PartFile, chunk_count, chunk_span, chunks_of, new_part
from stoker_sidecar.fetcher.ondisk.piece_maps import Gift

A, B = Gift("a:1"), Gift("b:1")
CONTENT = b"ab" * (CHUNK // 2) + b"rest"


def _part(*chunks: int) -> PartFile:
    part = PartFile(Path("part"), 5, len(CONTENT), bytearray(2), kept=True)
    for chunk in chunks:
        data = CONTENT[chunk * CHUNK : (chunk + 1) * CHUNK]
        part.sums[chunk] = crc64nvme(data).to_bytes(8, "big")
    return part


def test_the_checksum_of_a_file_follows_from_its_chunks_in_whatever_order_they_came() -> None:
    assert _part(1, 0).crc64nvme() == crc64nvme(CONTENT).to_bytes(8, "big")


def test_a_chunk_that_an_earlier_process_fetched_leaves_it_unknown() -> None:
    assert _part(1).crc64nvme() is None


@given(st.integers(1, 5 * CHUNK))
def test_the_chunks_of_a_file_follow_each_other_and_end_with_it(size: int) -> None:
    spans = [chunk_span(size, chunk) for chunk in range(chunk_count(size))]
    assert [offset for offset, _ in spans] == [sum(length for _, length in spans[:i]) for i in range(len(spans))]
    assert sum(length for _, length in spans) == size


@given(st.integers(0, 5 * CHUNK), st.integers(0, 3 * CHUNK), st.integers(1, 5 * CHUNK))
def test_the_chunks_of_a_read_cover_it_and_touch_it(offset: int, length: int, size: int) -> None:
    chunks = chunks_of(offset, length, size)
    end = min(offset + length, size)
    if offset >= end:
        assert not chunks
    else:
        assert chunks.start * CHUNK <= offset < (chunks.start + 1) * CHUNK
        assert (chunks.stop - 1) * CHUNK < end <= chunks.stop * CHUNK


def test_of_a_piece_that_is_doubted_twice_only_the_source_is_asked(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "part", 5, len(CONTENT), bytearray(2), kept=True)
    found = []
    for gift in (A, B):
        part.hold(0, gift, gift.giver.encode())
        part.doubt(gift, {0: gift.giver.encode()})
        found.append((set(part.held), part.replaced[0][0], set(part.doubted)))
    assert found == [(set(), A, set()), (set(), A, {0})]


def test_of_what_a_node_gave_that_alone_is_doubted_which_it_passed_on(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "part", 5, len(CONTENT), bytearray(2), kept=True)
    for chunk, gift in enumerate((A, A._replace(passed_on=True))):
        part.hold(chunk, gift, b"sum")
    part.doubt(A._replace(passed_on=True), {0: b"", 1: b""})
    assert part.held == {0}


def test_who_gave_a_piece_wrong_is_found_once_another_gave_it_right(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "part", 5, len(CONTENT), bytearray(2), kept=True)
    part.path.write_bytes(b"x" * len(CONTENT))
    part.hold(0, A, b"the same CRC")
    part.doubt(A, part.sha256_of([0]))
    part.path.write_bytes(CONTENT)
    part.hold(0, B, b"the same CRC")
    assert part.found_wrong(0) == {A}
    assert part.found_wrong(0) == set()


def test_who_gave_a_doubted_piece_right_is_not_called_wrong(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "part", 5, len(CONTENT), bytearray(2), kept=True)
    part.path.write_bytes(CONTENT)
    part.hold(0, A, b"sum")
    part.doubt(A, part.sha256_of([0]))
    part.hold(0, B, b"sum")
    assert part.found_wrong(0) == set()


@pytest.mark.parametrize(("kept", "left"), [(False, b""), (True, b"bytes")])
def test_a_part_that_is_only_read_through_leaves_no_bytes_in_open_files(
    tmp_path: Path, kept: bool, left: bytes
) -> None:
    part = new_part(tmp_path, 5, 5, kept=kept)
    part.path.write_bytes(b"bytes")
    with part.path.open("rb") as opened:
        part.drop()
        assert (part.path.exists(), opened.read()) == (False, left)
    part.drop()  # a second time, without a file
