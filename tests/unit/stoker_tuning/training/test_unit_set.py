"""A bitmap of units is a set of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.training.unit_set import UnitSet

NUMBERS = st.lists(st.integers(0, 200_000), max_size=40)


def filled(numbers: list[int]) -> UnitSet:
    made = UnitSet()
    for number in numbers:
        made.add(number)
    return made


@given(NUMBERS, st.integers(0, 200_000))
def test_it_holds_what_was_added(numbers: list[int], other: int) -> None:
    made = filled(numbers)
    assert len(made) == len(set(numbers))
    assert (other in made) == (other in numbers)


@given(NUMBERS, NUMBERS)
def test_it_counts_what_two_have_in_common(one: list[int], other: list[int]) -> None:
    assert filled(one).common(filled(other)) == len(set(one) & set(other))


@given(NUMBERS, NUMBERS)
def test_it_takes_all_of_another(one: list[int], other: list[int]) -> None:
    made = filled(one)
    made.update(filled(other))
    assert len(made) == len(set(one) | set(other))
    assert all(number in made for number in other)
