"""Sets of nodes as integers behave like sets, also while nodes join and leave."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core.fitting.node_bits import NodeNumbers, closed, first, members, nth, opened, rank

NUMBERS = st.sets(st.integers(0, 200))


def bits_of(numbers: set[int]) -> int:
    return sum(1 << number for number in numbers)


@given(NUMBERS)
def test_members_come_in_order(numbers: set[int]) -> None:
    assert list(members(bits_of(numbers))) == sorted(numbers)


@given(NUMBERS.filter(bool))
def test_the_first_is_the_lowest(numbers: set[int]) -> None:
    assert first(bits_of(numbers)) == min(numbers)


@given(NUMBERS.filter(bool), st.data())
def test_rank_and_nth_undo_each_other(numbers: set[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(numbers) - 1))
    number = nth(bits_of(numbers), count)
    assert number == sorted(numbers)[count]
    assert rank(bits_of(numbers), number) == count


@given(NUMBERS, st.integers(0, 200))
def test_a_new_number_shifts_those_after_it(numbers: set[int], at: int) -> None:
    shifted = {number + (number >= at) for number in numbers}
    assert opened(bits_of(numbers), at) == bits_of(shifted)


@given(NUMBERS, st.integers(0, 200))
def test_a_number_that_goes_shifts_them_back(numbers: set[int], at: int) -> None:
    shifted = {number - (number > at) for number in numbers if number != at}
    assert closed(bits_of(numbers), at) == bits_of(shifted)


def test_nodes_are_numbered_by_name() -> None:
    numbers = NodeNumbers()
    assert [numbers.insert(name) for name in ("b", "a", "c")] == [0, 0, 2]
    numbers.remove(0)
    assert (numbers.find("a"), numbers.find("c"), numbers.find("d")) == (None, 1, None)
