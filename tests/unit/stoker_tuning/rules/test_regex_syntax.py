"""Regular expressions without trying again: they find what Python's ``re`` finds, at a cost that is known."""

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.rules.matching import Matcher
from stoker_tuning.rules.regex_syntax import MOST_PATTERN, PatternError, parse_regex

_ATOMS = st.sampled_from(["a", "b", "/", ".", r"\.", r"\d", r"\W", "[ab]", "[^a]", "[a-c/]", "[]a]", "^", "$", "é"])
_COUNTS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "{0}"])


def _repeated(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    atoms = parts.map(lambda part: f"(?:{part})")
    return st.lists(st.tuples(atoms, _COUNTS).map("".join), min_size=1, max_size=4).flatmap(
        lambda words: st.sampled_from(["".join(words), "|".join(words)])
    )


REGEXES = st.recursive(_ATOMS, _repeated, max_leaves=6)
TEXTS = st.text(alphabet="ab/.1é", max_size=12)


@given(REGEXES, TEXTS)
def test_it_finds_what_backtracking_finds(pattern: str, text: str) -> None:
    found = Matcher(parse_regex(pattern), whole=False).holds(text)
    assert found == (re.search(pattern, text, re.ASCII) is not None)


@given(REGEXES, TEXTS)
def test_a_whole_match_is_that_of_backtracking(pattern: str, text: str) -> None:
    found = Matcher(parse_regex(pattern), whole=True).holds(text)
    assert found == (re.fullmatch(pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "a*a*a*a*a*b", "(?:a{1,5}){1,5}b"])
def test_what_backtracks_for_years_is_over_at_once(pattern: str) -> None:
    begin = time.thread_time()
    assert not Matcher(parse_regex(pattern), whole=False).holds("a" * 4095)
    assert time.thread_time() - begin < 5.0  # some milliseconds


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "0 characters"),
        ("a" * (MOST_PATTERN + 1), "257 characters"),
        ("(a", r"has no '\)'"),
        ("a)", r"has no '\('"),
        ("[a", "has no ']'"),
        ("*a", "nothing before"),
        ("a**", "cannot be repeated"),
        ("a{2", "begins a repetition"),
        ("a{999}", "0 to 255"),
        ("a{3,2}", "smaller number first"),
        ("((a{200}){200}){200}", "more than 1000 states"),
        ("(?=a)", "look ahead"),
        ("(?<=a)", "look behind"),
        ("(?i)a", "set flags"),
        (r"(a)\1", "is not taken"),
        ("a\\", "is not taken"),
        ("[z-a]", "to a later one"),
        ("(" * 30 + ")" * 30, "more than 20 groups"),
    ],
)
def test_a_pattern_that_is_not_taken_is_refused_in_a_sentence(pattern: str, says: str) -> None:
    with pytest.raises(PatternError, match=says):
        parse_regex(pattern)


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    with suppress(PatternError):
        Matcher(parse_regex(text), whole=False).holds("train/1.jpg")


@given(st.text(alphabet="()[]{}*+?|\\^$.-,ab12", max_size=60))
def test_any_signs_are_a_pattern_or_are_refused(text: str) -> None:
    with suppress(PatternError):
        Matcher(parse_regex(text), whole=False).holds("ab1(a)[b]{2}")


def test_what_is_longer_than_any_path_does_not_match() -> None:
    assert not Matcher(parse_regex("a"), whole=False).holds("a" * 5000)


def test_a_matcher_that_met_too_many_texts_starts_anew_and_is_right() -> None:
    matcher = Matcher(parse_regex("x$"), whole=False)
    assert all(matcher.holds(chr(1000 + number) + "x") for number in range(6000))
    assert not matcher.holds("xy")
