"""Which object keys can be files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.version.objects import SkipReason, folder_prefix, skip_reason


@pytest.mark.parametrize(
    ("path", "size", "reason"),
    [
        (b"a/b.png", 1, None),
        (b"a b/\xc3\xbc \t\n.png", 1, None),
        (b"empty/", 0, None),
        (b"...", 1, None),
        (b"a" * 255, 1, None),
        (b"a//b", 1, SkipReason.EMPTY_SEGMENT),
        (b"/a", 1, SkipReason.EMPTY_SEGMENT),
        (b"a//", 0, SkipReason.EMPTY_SEGMENT),
        (b"a/./b", 1, SkipReason.DOT_SEGMENT),
        (b"a/../b", 1, SkipReason.DOT_SEGMENT),
        (b"..", 1, SkipReason.DOT_SEGMENT),
        (b"a\0b", 1, SkipReason.NUL_BYTE),
        (b"a" * 256, 1, SkipReason.SEGMENT_TOO_LONG),
        (b"a/" * 2100 + b"a", 1, SkipReason.PATH_TOO_LONG),
        (b"caf\xe9", 1, SkipReason.NOT_UTF8),
        (b"a/", 5, SkipReason.FOLDER_WITH_CONTENT),
    ],
)
def test_a_key_is_a_file_or_says_why_not(path: bytes, size: int, reason: SkipReason | None) -> None:
    assert skip_reason(path, size) is reason


@given(st.binary(min_size=1, max_size=300))
def test_what_is_kept_is_a_relative_path_that_linux_takes(path: bytes) -> None:
    if skip_reason(path, 0) is None:
        segments = path.removesuffix(b"/").split(b"/")
        assert all(0 < len(segment) <= 255 and segment not in (b".", b"..") for segment in segments)
        assert b"\0" not in path
        path.decode()


@pytest.mark.parametrize(
    ("given_prefix", "prefix"), [("", ""), ("/", ""), ("p", "p/"), ("p/", "p/"), ("p/q//", "p/q/")]
)
def test_a_prefix_with_and_without_slash_is_the_same_folder(given_prefix: str, prefix: str) -> None:
    assert folder_prefix(given_prefix) == prefix
