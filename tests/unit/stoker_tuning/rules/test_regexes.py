"""Regular expressions of rules match like Python's ``re``, in bounded time and memory."""

import random
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.rules.conditions import MOST_MEMORY, Regex
from stoker_tuning.rules.globs import MOST_PATTERN, PatternError
from tests.support.cases import cases

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
    found = Regex(pattern).holds(text)
    assert found == (re.search(pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "a*a*a*a*a*b", "(?:a{1,5}){1,5}b"])
def test_what_backtracks_for_years_is_over_at_once(pattern: str) -> None:
    begin = time.thread_time()
    assert not Regex(pattern).holds("a" * 4095)
    assert time.thread_time() - begin < 5.0  # some milliseconds


@cases(
    "pattern, says",
    ("", "0 characters"),
    ("a" * (MOST_PATTERN + 1), "257 characters"),
    ("(a", r"missing \)"),
    ("a)", r"unexpected \)"),
    ("[a", "missing ]"),
    ("*a", "no argument for repetition"),
    ("a**", "bad repetition operator"),
    ("a{1001}", "invalid repetition size"),
    ("a{3,2}", "invalid repetition size"),
    ("((a{200}){200}){200}", "invalid repetition size"),
    (r"(\pL{20}){20}", "more than 256 KiB: write smaller repetitions"),
    ("(?=a)", "invalid perl operator"),
    ("(?<=a)", "invalid perl operator"),
    (r"(a)\1", "invalid escape sequence"),
    ("a\\", "trailing"),
    ("[z-a]", "invalid character class range"),
    ("\ud800", "not valid Unicode"),
)
def test_a_pattern_that_is_not_taken_is_refused_in_a_sentence(pattern: str, says: str) -> None:
    with pytest.raises(PatternError, match=says):
        Regex(pattern)


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    with suppress(PatternError):
        Regex(text).holds("train/1.jpg")


@given(st.text(alphabet="()[]{}*+?|\\^$.-,ab12", max_size=60))
def test_any_signs_are_a_pattern_or_are_refused(text: str) -> None:
    with suppress(PatternError):
        Regex(text).holds("ab1(a)[b]{2}")


def test_what_is_longer_than_any_path_does_not_match() -> None:
    assert not Regex("a").holds("a" * 5000)


def test_a_text_that_is_not_unicode_is_matched() -> None:
    assert Regex("^a.b$").holds("a\udcffb")


def test_many_texts_cost_bounded_memory() -> None:
    regex, coin = Regex("(a|b)*a(a|b){100}c"), random.Random(1)
    before = _resident()
    for _ in range(500):
        regex.holds("".join(coin.choices("ab", k=1000)))
    assert _resident() - before < 8 * MOST_MEMORY


def test_the_built_in_rules_do_without_re2() -> None:
    code = """if True:
        import sys
        from stoker_tuning.documents.assembly import builtin_rules
        from stoker_tuning.rules.compiled import compile_rules
        print(len(compile_rules(builtin_rules())) > 0, 're2' in sys.modules)"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True False\n"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
