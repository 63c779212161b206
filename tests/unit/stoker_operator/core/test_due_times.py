"""Entries are found when they are due, regardless of other entries."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core.views.due_times import DueTimes
from tests.support.cases import cases


def test_a_key_is_due_at_its_time_and_not_before() -> None:
    times = DueTimes()
    times.put("a", [5.0])
    assert (times.take(4.9), times.take(5.0), times.take(9.0)) == (set(), {"a"}, set())


@cases("second, first, due", another_time=([7.0], 7.0, set()), no_time=((), None, set()))
def test_a_key_has_only_the_times_that_were_set_last(
    second: Sequence[float], first: float | None, due: set[str]
) -> None:
    times = DueTimes()
    times.put("a", [5.0])
    times.put("a", second)
    assert (times.first(), times.take(6.0)) == (first, due)


def test_a_time_that_was_taken_may_be_set_again() -> None:
    times = DueTimes()
    for _ in range(2):
        times.put("a", [5.0])
        assert times.take(5.0) == {"a"}


def test_of_several_times_each_comes_up() -> None:
    times = DueTimes()
    times.put("a", [5.0, 7.0])
    assert (times.take(5.0), times.first(), times.take(7.0), times.first()) == ({"a"}, 7.0, {"a"}, None)


_MOMENTS = st.integers(0, 20).map(float)
_STEPS = st.one_of(st.tuples(st.sampled_from("abc"), st.frozensets(_MOMENTS, max_size=2)), _MOMENTS)


@given(st.lists(_STEPS, max_size=300))
def test_it_says_what_a_look_at_all_times_says(steps: list[tuple[str, frozenset[float]] | float]) -> None:
    times, plain = DueTimes(), dict[str, frozenset[float]]()
    for step in steps:
        if isinstance(step, tuple):
            key, new = step
            times.put(key, new)
            plain[key] = new
        else:
            assert times.take(step) == {key for key, its in plain.items() if any(time <= step for time in its)}
            plain = {key: frozenset(time for time in its if time > step) for key, its in plain.items()}
        assert times.first() == min((time for its in plain.values() for time in its), default=None)
