"""Objects that are files of the Dataset, by their keys and the patterns."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.version.objects import (
    SkipReason,
    below_selector,
    compile_pattern,
    folder_prefix,
    selector,
    skip_reason,
)
from tests.support.cases import cases


@cases(
    "path, size, reason",
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


@cases("given_prefix, prefix", ("", ""), ("/", ""), ("p", "p/"), ("p/", "p/"), ("p/q//", "p/q/"))
def test_a_prefix_with_and_without_slash_is_the_same_folder(given_prefix: str, prefix: str) -> None:
    assert folder_prefix(given_prefix) == prefix


@cases(
    "pattern, path, matches",
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
)
def test_star_stops_at_a_slash_and_two_stars_do_not(pattern: str, path: str, matches: bool) -> None:
    assert (compile_pattern(pattern).fullmatch(path) is not None) is matches


def _by_backtracking(pattern: str) -> re.Pattern[str]:
    """Translate a pattern in the simplest way. It is right, but a match takes polynomial time in the path's length."""
    simple = {"**/": "(?:[^/]+/)*", "/**": "/.+", "**": ".+", "*": "[^/]*", "?": "[^/]"}
    classes = {"[ab]": "(?!/)[ab]", "[!a]": "(?!/)[^a]"}
    tokens = re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\w+\]|.", pattern, re.DOTALL)
    return re.compile(
        "".join(simple.get(token) or classes.get(token) or re.escape(token) for token in tokens), re.DOTALL
    )


_NAME = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", ".", "\n"]), min_size=1, max_size=6).map("".join)
_PATTERN = st.lists(_NAME.filter(lambda name: "**" not in name) | st.just("**"), min_size=1, max_size=5).map("/".join)
_PATH = st.lists(st.text("ab.\n", min_size=1, max_size=6), min_size=1, max_size=6).map("/".join)


@settings(max_examples=400)
@given(_PATTERN, _PATH)
def test_patterns_match_the_same_paths_as_backtracking(pattern: str, path: str) -> None:
    expected = _by_backtracking(pattern).fullmatch(path) is not None
    assert (compile_pattern(pattern).fullmatch(path) is not None) is expected


_DEEP = ("a" * 255 + "/") * 15 + "a" * 255  # the longest path in Linux


@cases(
    "pattern, path",
    ("*a" * 100 + "*b", "a" * 255),
    ("**/" * 60 + "b", "a/" * 2000 + "a"),
    ("/".join(["**/*a*b*"] * 25), _DEEP),
    ("**/" + "/".join(["*a*"] * 60) + "/**/z", "aa/" * 1300 + "a"),
    ("*" + "a" * 253 + "b", _DEEP),
)
def test_no_pattern_takes_long_for_any_path(pattern: str, path: str) -> None:
    begin = time.thread_time()
    assert compile_pattern(pattern).fullmatch(path) is None
    assert time.thread_time() - begin < 1.0  # 3 ms; by backtracking the first of them takes years


@pytest.mark.parametrize("pattern", ["", "/a", "a/", "a**", "**b", "***", "[z-a]", "a[]*?", "[!]"])
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


@cases(
    "include, exclude, folder, selected",
    ((), (), "lost+found", True),
    ((), ("lost+found/**",), "lost+found", False),
    ((), ("lost+found/*",), "lost+found", False),
    ((), ("**/*.tmp",), "a", True),
    (("train/**",), (), "lost+found", False),
    (("train/**",), (), "train/a", True),
    (("**/*.txt",), (), "a/b", True),
    (("*.txt",), (), "a", False),
    (("t*/*/x.txt",), (), "train/a", True),
    (("t*/*/x.txt",), (), "train/a/b", False),
    (("train/**",), ("train/private/**",), "train/private", False),
)
def test_a_folder_counts_if_its_files_could_be_selected(
    include: tuple[str, ...], exclude: tuple[str, ...], folder: str, selected: bool
) -> None:
    assert below_selector(include, exclude)(folder) is selected
