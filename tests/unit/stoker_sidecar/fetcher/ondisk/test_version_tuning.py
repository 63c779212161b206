"""How a tune request treats files of a version. Any bytes are parsed or rejected."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.fetcher.download.policy import chunks_ahead
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.ondisk.version_tuning import DatasetTuning, VersionTuning
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from stoker_sidecar.wire.fetcher_protocol import decode_request, encode_request

FIRST, LATE, OUT = FileKnobs(warm_rank=0), FileKnobs(warm_rank=3), FileKnobs(cached=False)
BUDGET = 8 * CHUNK


def test_without_knobs_each_file_is_as_ever() -> None:
    tuning = VersionTuning()
    assert (tuning.of(0), tuning.of(10**9), len(tuning.turns), tuning.leaves_out) == (
        FileKnobs(),
        FileKnobs(),
        1,
        False,
    )


def test_files_have_the_knobs_of_their_group_and_those_past_the_end_the_first() -> None:
    tuning = VersionTuning((FIRST, LATE, OUT), zlib.compress(bytes([0, 2, 1])))
    assert [tuning.of(ino) for ino in range(4)] == [FIRST, OUT, LATE, FIRST]


def test_numbers_of_ranks_and_weights_are_as_long_as_the_version() -> None:
    heavy = FileKnobs(weight=16)
    tuning = VersionTuning((heavy, LATE, FIRST, FileKnobs()), zlib.compress(bytes([0, 1, 2, 3])))
    assert tuning.turns == ((0, 4), (2, 4), (2, 16), (3, 4))
    assert tuning.numbered(last_ino=5) == bytes([2, 3, 0, 1, 2, 2])
    assert tuning.numbered(last_ino=1) == bytes([2, 3])


@pytest.mark.parametrize(
    "groups",
    [b"no zlib", zlib.compress(b"\x02"), zlib.compress(b"\x00" * 10)[:-3], zlib.compress(b"\x00") + b"more"],
    ids=["garbage", "a group there is not", "cut", "more behind"],
)
def test_groups_that_cannot_be_meant_are_refused(groups: bytes) -> None:
    with pytest.raises(ProtocolError):
        VersionTuning((FIRST, LATE), groups)


def test_marks_of_what_comes_unasked() -> None:
    tuning = VersionTuning((FIRST, FileKnobs(unasked=True)), zlib.compress(bytes([0, 1, 0])))
    assert (tuning.unasked, tuning.wanted_unasked(last_ino=3)) == (True, bytes([0, 1, 0, 0]))
    assert not VersionTuning((FIRST,)).unasked


def test_groups_that_unpack_to_more_than_any_version_are_refused() -> None:
    with pytest.raises(ProtocolError, match="more than"):
        VersionTuning((FIRST,), zlib.compress(bytes(33 * 1024**2)))


@given(groups=st.binary(max_size=200), knobs=st.integers(0, 5))
def test_any_bytes_are_read_or_refused(groups: bytes, knobs: int) -> None:
    try:
        tuning = VersionTuning((FileKnobs(),) * knobs, groups)
    except ProtocolError:
        return
    assert tuning.of(3) == FileKnobs()


@pytest.mark.parametrize(
    "wrong", ["ahead_bytes=-1", "ahead_files=5000", "streams=0", "warm_rank=4", "weight=0", "weight=101", "bandwidth=0"]
)
def test_knobs_out_of_bounds_are_refused_at_the_door(wrong: str) -> None:
    name, _, value = wrong.partition("=")
    line = b'{"id":1,"op":"tune","uid":"u","digest":"d","knobs":[{"%b":%b}]}\n' % (name.encode(), value.encode())
    with pytest.raises(ProtocolError):
        decode_request(line)


def test_a_tune_request_goes_over_the_wire_as_it_is() -> None:
    request = Tune("u", "d", (FIRST, OUT, FileKnobs(ahead_bytes=1, ahead_files=2, streams=3)), zlib.compress(b"\x01"))
    assert decode_request(encode_request(7, request)) == (7, request)


def test_of_many_versions_the_latest_are_known() -> None:
    tunings = DatasetTuning()
    for number in range(40):
        tunings.set(str(number), VersionTuning((LATE,)))
    assert (tunings.of("0").of(1), tunings.of("39").of(1)) == (FileKnobs(), LATE)


@pytest.mark.parametrize(
    ("knobs", "chunks"),
    [
        (FileKnobs(), None),
        (FileKnobs(ahead_bytes=0), 0),
        (FileKnobs(ahead_bytes=1), 1),
        (FileKnobs(ahead_bytes=3 * CHUNK), 3),
        (FileKnobs(ahead_bytes=2**30), 8),
        (FileKnobs(streams=1), 0),
        (FileKnobs(streams=4), 3),
        (FileKnobs(ahead_bytes=6 * CHUNK, streams=4), 3),
        (FileKnobs(ahead_bytes=2 * CHUNK, streams=16), 2),
    ],
)
def test_chunks_ahead_of_a_reader(knobs: FileKnobs, chunks: int | None) -> None:
    assert chunks_ahead(knobs, BUDGET) == chunks
