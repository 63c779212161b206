"""Which objects are files of the dataset: what their keys and the patterns say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.version.objects import SkipReason, compile_pattern, folder_prefix, selector, skip_reason


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


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.png", "a.png", True),
        ("*.png", "d/a.png", False),
        ("**/*.png", "a.png", True),
        ("**/*.png", "d/e/a.png", True),
        ("train/**", "train/a", True),
        ("train/**", "train/d/a", True),
        ("train/**", "train", False),
        ("train/**", "training/a", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/xb", False),
        ("**", "x/y", True),
        ("f?.bin", "f1.bin", True),
        ("f?.bin", "f/.bin", False),
        ("f[0-3].bin", "f2.bin", True),
        ("f[!0-3].bin", "f2.bin", False),
        ("f[!0-3].bin", "f/.bin", False),
        ("a.b", "aXb", False),
        ("a+(b", "a+(b", True),
    ],
)
def test_star_stops_at_a_slash_and_two_stars_do_not(pattern: str, path: str, matches: bool) -> None:
    assert (compile_pattern(pattern).fullmatch(path) is not None) is matches


@pytest.mark.parametrize("pattern", ["", "/a", "a/", "a**", "**b", "***", "[z-a]"])
def test_a_pattern_that_makes_no_sense_is_refused_with_itself_in_the_sentence(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern") as raised:
        compile_pattern(pattern)
    assert repr(pattern) in str(raised.value)


def test_without_include_everything_is_selected() -> None:
    assert selector((), ())("any/thing")


def test_exclude_wins_over_include() -> None:
    selected = selector(("train/**",), ("**/*.tmp",))
    assert selected("train/a")
    assert not selected("train/a.tmp")
    assert not selected("test/a")
