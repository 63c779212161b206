"""Windows by which numbers are judged, and what was read in them."""

import pytest

from stoker_sidecar.agent.core.number_windows import NumberWindow, WindowTimes
from stoker_sidecar.agent.core.read_counts import ReadCount, items_a_second


def test_what_is_read_at_first_is_left_out() -> None:
    window = NumberWindow(WindowTimes(5.0, 5.0), 100.0)
    ends = [window.saw(100.0 + second, ReadCount(100.0 + second, second)) for second in range(11)]

    assert ends[:10] == [None] * 10
    assert ends[10] == (ReadCount(105.0, 5), ReadCount(110.0, 10))


def test_a_window_that_nobody_looked_at_for_long_begins_late_and_counts_as_long() -> None:
    window = NumberWindow(WindowTimes(1.0, 1.0), 0.0)

    assert window.saw(50.0, ReadCount(50.0, 5)) is None
    assert window.saw(51.0, ReadCount(51.0, 6)) == (ReadCount(50.0, 5), ReadCount(51.0, 6))


@pytest.mark.parametrize(
    ("after", "rate"), [(ReadCount(12.0, 8.0), 4.0), (ReadCount(12.0, 0.0), None), (ReadCount(10.0, 1.0), None)]
)
def test_where_nothing_was_read_or_told_there_is_no_rate(after: ReadCount, rate: float | None) -> None:
    assert items_a_second(ReadCount(10.0), after) == rate


@pytest.mark.parametrize("times", [WindowTimes(), WindowTimes(1.0, 1.0), WindowTimes(30.0, 30.0)])
def test_there_is_a_turn_for_each_window(times: WindowTimes) -> None:
    assert times.turns_a_minute >= 60.0 / (times.left_out + times.counted)
