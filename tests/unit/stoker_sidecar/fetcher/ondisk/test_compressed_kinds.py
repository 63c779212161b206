"""Files with compressed formats."""

import bz2
import gzip
import io
import lzma
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.ondisk.packing_decision import MOST_HEAD, is_compressed


def zipped(method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("data.pkl", b"x" * 1000)
    return out.getvalue()


@pytest.mark.parametrize(
    "head",
    [
        b"\xff\xd8\xff\xe0\x00\x10JFIF",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"GIF89a",
        b"RIFF\x10\x20\x30\x40WEBPVP8 ",
        b"\xff\x0a\xfa\x7f",
        b"ID3\x04\x00\x00",
        b"\xff\xfb\x90\x64\x00\x00",  # MP3 without tags, 128 kbit/s
        b"\xff\xf1\x50\x80\x02\x1f",  # AAC
        b"OggS\x00\x02",
        b"fLaC\x00\x00\x00\x22",
        b"\x00\x00\x00\x20ftypisom",
        b"\x1aE\xdf\xa3\x9f",
        gzip.compress(b"x", mtime=0),
        bz2.compress(b"x"),
        lzma.compress(b"x"),
        b"\x28\xb5\x2f\xfd\x04",
        zipped(zipfile.ZIP_DEFLATED),
    ],
)
def test_compressed_kinds_are_known_by_their_first_bytes(head: bytes) -> None:
    assert is_compressed(head[:MOST_HEAD])


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\xff",
        b'{"id": 1, "text": "',
        b"a,b,c\n1,2,3\n",
        b"RIFF\x10\x20\x30\x40WAVEfmt ",
        b"\x93NUMPY\x01\x00v\x00{",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xff\xfe[\x00]\x00",  # text in UTF-16
        bytes(16),
        zipped(zipfile.ZIP_STORED),
        b"PAR1\x15\x04",  # its pages may be compressed or not
    ],
)
def test_others_are_tried(head: bytes) -> None:
    assert not is_compressed(head[:MOST_HEAD])


@given(st.binary(max_size=MOST_HEAD))
def test_any_first_bytes_have_an_answer(head: bytes) -> None:
    assert is_compressed(head) in (True, False)
