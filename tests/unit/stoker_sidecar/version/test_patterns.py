"""include and exclude."""

import pytest

from stoker_sidecar.version.patterns import compile_pattern, selector


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
