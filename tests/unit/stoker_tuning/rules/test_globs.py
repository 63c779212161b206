"""Globs: their matches, and decisions from a folder and an extension alone."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.rules.facts import FileFacts
from stoker_tuning.rules.globs import PatternError, parse_glob
from tests.support.cases import cases


@cases(
    "glob, path, matches",
    ("*.tar", "a.tar", True),
    ("*.tar", "deep/folder/a.tar", True),
    ("*.tar", "a.TAR", False),
    ("*.tar", "a.tar.gz", False),
    ("train/*.jpg", "train/1.jpg", True),
    ("train/*.jpg", "train/cat/1.jpg", False),
    ("train/*.jpg", "other/train/1.jpg", False),
    ("train/**", "train/cat/1.jpg", True),
    ("train/**", "train", False),
    ("**/val/*", "val/1", True),
    ("**/val/*", "a/b/val/1", True),
    ("**/val/*", "a/interval/1", False),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("**", "a/b", True),
    ("img_?.png", "img_1.png", True),
    ("img_?.png", "img_10.png", False),
    ("img_[0-3].png", "img_2.png", True),
    ("img_[!0-3].png", "img_2.png", False),
    ("[]].x", "].x", True),
    ("a.+b", "a.+b", True),
)
def test_a_glob_matches(glob: str, path: str, matches: bool) -> None:
    assert parse_glob(glob).holds(path) is matches


@cases(
    "glob, says",
    ("", "0 characters"),
    ("/a", "begin or end"),
    ("a/", "begin or end"),
    ("a**", "stand alone"),
    ("a[b", "no ']'"),
    ("[z-a]", "bad character range"),
    ("[!]", "no ']'|need a character"),
)
def test_a_glob_that_is_not_taken_is_refused_in_a_sentence(glob: str, says: str) -> None:
    with pytest.raises(PatternError, match=says):
        parse_glob(glob)


_GLOBS = st.lists(
    st.sampled_from(["**/", "*", "?", "a", "b", "/", ".x", ".X", "[ab]", "[!a]", "[.-0]", "train/"]), max_size=6
).map("".join)
_PATHS = st.text(alphabet="abxX./", min_size=1, max_size=10)


@given(_GLOBS, _PATHS)
def test_what_a_folder_and_an_extension_decide_is_true_of_the_path(glob: str, path: str) -> None:
    try:
        parsed = parse_glob(glob)
    except PatternError:
        return
    file = FileFacts(path)
    decided = parsed.decide(file.folder, file.written_extension)
    anywhere = parsed.decide(None, file.written_extension)
    assert path.endswith("/") or {decided, anywhere} <= {None, parsed.holds(path)}


@given(st.text(alphabet="*?[]!-/ab.", max_size=30))
def test_any_text_is_a_glob_or_is_refused(text: str) -> None:
    with suppress(PatternError):
        parse_glob(text).holds("a/b.a")
