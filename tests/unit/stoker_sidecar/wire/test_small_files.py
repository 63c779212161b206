"""A peer's headers about files in one response are untrusted."""

import pytest

from stoker_sidecar.wire.small_files import MOST_FILES, parse_together, sizes_of, told_sizes


@pytest.mark.parametrize(
    ("text", "together"),
    [("8", 8), ("3", 3), ("0", 0), ("999", MOST_FILES), ("1000", 0), ("", 0), ("-1", 0), ("many", 0), ("\u0663", 0)],
)
def test_how_many_a_node_gives_is_bounded(text: str, together: int) -> None:
    assert parse_together(text) == together


def test_sizes_that_are_told_are_read() -> None:
    assert sizes_of(told_sizes([3, None, 0]), [3, 4, 0]) == [3, None, 0]


@pytest.mark.parametrize("text", ["", "3", "3,4,0,1", "4,4,0", "3,4,-2", "3,x,0", "3,4, 0", "3,04,0", "9" * 9000])
def test_sizes_of_other_files_are_no_answer(text: str) -> None:
    assert sizes_of(text, [3, 4, 0]) is None
