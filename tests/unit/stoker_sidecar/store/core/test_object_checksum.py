"""Checksums that a server states for an object: accepted ones, the same results here, and when an ETag is an MD5."""

import hashlib
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.store.core.object_checksum import (
    CRC64NVME,
    Checksum,
    EtagTrust,
    check,
    joined_crc64nvme,
    new_digest,
    stated_checksum,
)

# The catalog's check values, for the digits from 1 to 9.
CHECKED = {"crc64nvme": "ae8b14860a799888", "crc32c": "e3069283", "crc32": "cbf43926"}
FULL = {"x-amz-checksum-type": "FULL_OBJECT"}


def _headers(algorithm: str, value: bytes) -> dict[str, str]:
    return FULL | {f"x-amz-checksum-{algorithm}": b64encode(value).decode()}


@pytest.mark.parametrize(("algorithm", "value"), CHECKED.items())
def test_a_crc_is_that_of_the_catalogue(algorithm: str, value: str) -> None:
    digest = new_digest(algorithm)
    digest.update(b"123456789")
    assert digest.digest().hex() == value


@given(st.lists(st.binary(max_size=50), max_size=5), st.sampled_from([*CHECKED, "sha256", "sha1", "md5"]))
def test_pieces_have_the_checksum_of_the_whole(pieces: list[bytes], algorithm: str) -> None:
    whole, parts = new_digest(algorithm), new_digest(algorithm)
    whole.update(b"".join(pieces))
    for piece in pieces:
        parts.update(memoryview(piece))
    assert parts.digest() == whole.digest()


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_checksums_of_pieces_are_joined_to_that_of_the_whole(pieces: list[bytes]) -> None:
    joined = joined_crc64nvme((_taken(CRC64NVME, piece), len(piece)) for piece in pieces)
    assert joined == _taken(CRC64NVME, b"".join(pieces))


def _taken(algorithm: str, data: bytes) -> bytes:
    digest = new_digest(algorithm)
    digest.update(data)
    return digest.digest()


def test_what_is_stated_of_a_whole_object_is_read() -> None:
    value = hashlib.sha256(b"x").digest()
    assert stated_checksum(_headers("sha256", value)) == Checksum("sha256", value)


def test_the_one_that_is_taken_fastest_is_preferred() -> None:
    both = _headers("sha256", bytes(32)) | _headers("crc64nvme", bytes(8))
    assert stated_checksum(both) == Checksum("crc64nvme", bytes(8))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-amz-checksum-crc32": "AAAAAA=="},  # a server that does not state the type
        {"x-amz-checksum-type": "COMPOSITE", "x-amz-checksum-crc32": "AAAAAA==-2"},
        FULL,
        FULL | {"x-amz-checksum-xxhash64": "AAAAAAAAAAA="},
        FULL | {"x-amz-checksum-crc32": "AAAAAA==-2"},
        FULL | {"x-amz-checksum-crc32": "no base64"},
        FULL | {"x-amz-checksum-crc32": "AAAAAAAAAAA="},  # wrong length
    ],
)
def test_what_is_not_of_the_whole_object_or_makes_no_sense_counts_as_nothing(headers: dict[str, str]) -> None:
    assert stated_checksum(headers) is None


def test_a_difference_is_told_with_both_values() -> None:
    with pytest.raises(CorruptBody, match="k: the body's crc32 is 00000002 where the server states 00000001"):
        check("k", Checksum("crc32", b"\0\0\0\1"), b"\0\0\0\2")


def test_an_algorithm_that_no_one_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="xyz"):
        new_digest("xyz")


def test_one_match_proves_that_etags_are_md5s() -> None:
    keep, trust = EtagTrust(objects=10).judge("a" * 32, "a" * 32)
    assert keep
    assert trust.judge("b" * 32, "c" * 32)[0] is False


def test_objects_that_differ_twice_alike_show_that_etags_are_no_md5s() -> None:
    trust, kept = EtagTrust(objects=10), []
    for etag in ("1", "1", "2", "2", "3", "3"):
        keep, trust = trust.judge(etag, f"md5 of {etag}")
        kept.append(keep)
    assert kept == [False, False, False, False, False, True]
    assert not trust.worth_hashing("a" * 32)


def test_a_body_that_differs_each_time_is_spoilt() -> None:
    trust = EtagTrust(objects=1)
    for attempt in range(10):
        keep, trust = trust.judge("e", f"md5 {attempt}")
        assert not keep


def test_a_source_of_one_object_with_another_etag_is_believed_the_second_time() -> None:
    _, trust = EtagTrust(objects=1).judge("e", "m")
    assert trust.judge("e", "m")[0]


@pytest.mark.parametrize(("etag", "worth"), [("0" * 32, True), ("0" * 32 + "-3", False), ("", False)])
def test_only_a_plain_md5_is_worth_hashing(etag: str, worth: bool) -> None:
    assert EtagTrust(objects=3).worth_hashing(etag) is worth
