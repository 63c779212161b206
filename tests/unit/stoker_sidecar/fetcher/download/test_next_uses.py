"""The next reads of readers, followed through repeated windows and through their reads."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.download.core.next_uses import NextUses

ORDER = [7, 3, 9, 0, 4, 11, 2, 5, 8, 1]


def _told(files: list[int], reader: str = "pod") -> NextUses:
    uses = NextUses()
    uses.tell(reader, files)
    return uses


def test_a_file_has_the_place_at_which_it_comes() -> None:
    uses = _told(ORDER)
    assert [uses.place(ino) for ino in (7, 9, 1, 99)] == [0, 2, 9, None]


def test_what_was_read_is_not_read_next() -> None:
    uses = _told(ORDER)
    uses.read(9)
    assert uses.place(9) is None
    assert uses.files() == [ino for ino in ORDER if ino != 9]
    assert [uses.was_read("pod", place) for place in (1, 2, 3)] == [False, True, False]


def test_a_window_that_goes_on_knows_what_was_read_of_the_one_before() -> None:
    uses = _told(ORDER[:8])
    for ino in (7, 3, 9, 4):
        uses.read(ino)
    uses.tell("pod", ORDER[1:])
    assert [uses.place(ino) for ino in (3, 9, 0, 4, 11)] == [None, None, 2, None, 4]


def test_a_file_that_comes_twice_is_read_once_more() -> None:
    uses = _told([1, 2, 3, 2])
    uses.read(2)
    assert uses.place(2) == 3
    uses.read(2)
    assert uses.place(2) is None


def test_where_an_epoch_ends_the_next_window_is_found_behind_its_end() -> None:
    epoch, following = [1, 2, 3, 4, 5], [3, 1, 5, 2, 4]
    uses = _told(epoch[2:] + following)
    for ino in (3, 4, 5, 3):
        uses.read(ino)
    uses.tell("pod", following)
    assert [uses.place(ino) for ino in following] == [None, 1, 2, 3, 4]


def test_of_another_order_nothing_was_read_yet() -> None:
    uses = _told(ORDER)
    uses.read(7)
    uses.tell("pod", [5, 7, 3])
    assert [uses.place(ino) for ino in (5, 7, 3)] == [0, 1, 2]


def test_who_is_to_read_a_file_first_has_read_it() -> None:
    uses = _told([1, 2, 3], "one")
    uses.tell("other", [9, 8, 7, 3])
    uses.read(3)
    assert uses.place(3) == 3


def test_pieces_of_one_file_count_once() -> None:
    uses = _told([4, 4, 4, 5])
    assert uses.place(5) == 1
    uses.read(4)
    assert uses.place(4) is None


def test_an_empty_window_takes_back_what_was_told() -> None:
    uses = _told(ORDER)
    uses.tell("pod", [])
    assert uses.files() == []


@given(st.permutations(range(30)), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 8)), max_size=40))
def test_it_is_what_was_told_without_what_was_read(order: list[int], steps: list[tuple[int, int]]) -> None:
    """Windows start later and later. A file of a window that was read does not return."""
    uses, begin, done = NextUses(), 0, set[int]()
    for pick, further in steps:
        begin = min(begin + further, 29)
        uses.tell("pod", order[begin:])
        ino = order[pick]
        uses.read(ino)
        if pick >= begin:
            done.add(ino)
        assert uses.files() == [ino for ino in order[begin:] if ino not in done]
