"""A multipart ETag is a checksum if the size of the parts is known, and never by guessing."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.store.core.object_checksum import Checksum, multipart_checksum, parse_multipart_etag
from tests.fakes.object_store import multipart_etag

MD5 = "9bb58f26192e4ba00f01e2e7b136bbd8"


@given(content=st.binary(min_size=1, max_size=300), part_size=st.integers(1, 310), cut=st.integers(1, 64))
def test_the_digest_of_any_pieces_is_the_etag_of_any_part_size(content: bytes, part_size: int, cut: int) -> None:
    proof = multipart_checksum(multipart_etag(part_size)(content), len(content), _head(min(part_size, len(content))))
    assert proof is not None
    digest = proof.new_digest()
    for start in range(0, len(content), cut):
        digest.update(content[start : start + cut])
    assert digest.digest() == proof.value


def test_another_byte_is_another_digest() -> None:
    proof = Checksum("md5", bytes.fromhex(multipart_etag(3)(b"0123456789").partition("-")[0]), 3)
    digest = proof.new_digest()
    digest.update(b"012345678x")
    assert digest.digest() != proof.value


@pytest.mark.parametrize(
    ("etag", "size", "headers"),
    [
        (f"{MD5}-3", 21, {}),
        (f"{MD5}-3", 21, {"content-length": "21"}),  # a server without support for partNumber
        (f"{MD5}-3", 21, {"content-length": "0"}),
        (f"{MD5}-3", 21, {"content-length": "-8"}),
        (f"{MD5}-3", 21, {"content-length": "8", "x-amz-mp-parts-count": "4"}),
        (f"{MD5}-4", 21, {"content-length": "8"}),  # parts of several sizes
        (f"{MD5}-3", 21, {"content-length": "8", "x-amz-server-side-encryption": "aws:kms"}),
        (f"{MD5}-3", 21, {"content-length": "8", "x-amz-server-side-encryption-customer-algorithm": "AES256"}),
        (MD5, 21, {"content-length": "8"}),
        (f"{MD5}-03", 21, {"content-length": "8"}),
        (f"{MD5}-123456", 21, {"content-length": "8"}),
        (f"{MD5.upper()}-3", 21, {"content-length": "8"}),
        ("17d8a9c0e11b2c00-3", 21, {"content-length": "8"}),  # of a file, from its date and size
    ],
)
def test_what_does_not_say_how_an_object_was_put_states_nothing(etag: str, size: int, headers: dict[str, str]) -> None:
    assert multipart_checksum(etag, size, headers) is None


def test_the_parts_of_an_answer_are_taken() -> None:
    headers = {"content-length": "8", "x-amz-mp-parts-count": "3", "x-amz-server-side-encryption": "AES256"}
    assert multipart_checksum(f"{MD5}-3", 21, headers) == Checksum("md5", bytes.fromhex(MD5), 8)


def test_the_number_of_parts_is_bounded() -> None:
    assert parse_multipart_etag(f"{MD5}-99999") is not None
    assert parse_multipart_etag(f"{MD5}-100000") is None


@pytest.mark.parametrize(
    ("algorithm", "proves"),
    [("md5", True), ("sha1", True), ("sha256", True), ("crc64nvme", False), ("crc32c", False), ("crc32", False)],
)
def test_only_a_hash_is_cryptographic(algorithm: str, proves: bool) -> None:
    assert Checksum(algorithm, b"").is_cryptographic is proves


def test_a_digest_without_parts_is_of_the_whole() -> None:
    digest = Checksum("md5", b"").new_digest()
    digest.update(b"content")
    assert digest.digest() == hashlib.md5(b"content", usedforsecurity=False).digest()


def _head(length: int) -> dict[str, str]:
    return {"content-length": str(length)}
