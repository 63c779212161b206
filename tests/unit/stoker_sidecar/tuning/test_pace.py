"""The pace of knob changes for one Dataset."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.tuning.tuner import Pace


def test_the_first_changes_need_not_wait_and_the_next_waits_for_the_minute_to_pass() -> None:
    pace = Pace(most=2, seconds=60)
    for now in (100.0, 110.0):
        assert pace.wait(now) == 0
        pace.changed(now)
    assert pace.wait(120.0) == 40
    assert pace.wait(160.0) == 0


@given(st.lists(st.floats(0, 30), max_size=60))
def test_no_minute_has_more_changes_than_may_be(steps: list[float]) -> None:
    pace, now, changes = Pace(), 0.0, list[float]()
    for step in steps:
        now += step
        if pace.wait(now) == 0:
            pace.changed(now)
            changes.append(now)
    assert all(later - first >= 60 for first, later in zip(changes, changes[4:], strict=False))
