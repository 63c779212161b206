"""What readers lose is told from what is beside each spell, whatever else changes the machine's speed."""

from collections.abc import Callable

import pytest

from bench.spells import Moment, lost, spells

STEP = 0.01


def played(rate: Callable[[float, bool], float], seconds: float = 60.0, every: float = 3.0) -> list[Moment]:
    """Return what is seen of readers of so many files a second, and of marks that are on for 0.1 s again and again."""
    moments, files = [], 0.0
    for step in range(round(seconds / STEP)):
        now = step * STEP
        marked = 1.0 <= now % every < 1.1
        files += rate(now, marked) * STEP
        moments.append(Moment(now, round(files), marked))
    return moments


def test_readers_that_are_a_fifth_slower_in_a_thirtieth_of_the_time_lose_two_thirds_of_a_percent() -> None:
    loss = lost(played(lambda _, marked: 40_000.0 if marked else 50_000.0))
    assert loss is not None
    assert loss.percent == pytest.approx(100 * 0.2 / 30, rel=0.05)
    assert loss.marked == pytest.approx(100 / 30, rel=0.15)
    assert loss.calm == pytest.approx(0.0, abs=0.01)


def test_a_machine_that_becomes_twice_as_fast_meanwhile_changes_nothing() -> None:
    loss = lost(played(lambda now, marked: (1 + now / 60) * (40_000.0 if marked else 50_000.0)))
    assert loss is not None
    assert loss.percent == pytest.approx(100 * 0.2 / 30, rel=0.1)


def test_marks_that_cost_nothing_are_told_to_cost_nothing() -> None:
    loss = lost(played(lambda _now, _marked: 50_000.0))
    assert loss is not None
    assert loss.percent == pytest.approx(0.0, abs=0.01)


def test_the_error_tells_how_much_spells_differ() -> None:
    steady = lost(played(lambda _, marked: 40_000.0 if marked else 50_000.0))
    uneven = lost(played(lambda now, marked: (20_000.0 if now % 2 < 1 else 50_000.0) if marked else 50_000.0))
    assert steady is not None
    assert uneven is not None
    assert uneven.error > 10 * steady.error


def test_a_machine_that_stands_still_in_one_spell_changes_little() -> None:
    loss = lost(played(lambda now, marked: (0.0 if now < 1.5 else 40_000.0) if marked else 50_000.0))
    assert loss is not None
    assert loss.percent == pytest.approx(100 * 0.2 / 30, rel=0.05)


def test_few_spells_tell_nothing() -> None:
    assert lost(played(lambda _now, _marked: 1000.0, seconds=9.0)) is None


def test_spells_beside_each_other_tell_nothing() -> None:
    assert lost(played(lambda _now, _marked: 1000.0, every=1.2)) is not None
    moments = [Moment(step * STEP, step, step % 20 < 10) for step in range(6000)]
    assert lost(moments) is None


def test_a_spell_that_is_cut_off_is_left_out() -> None:
    marked = [True, False, True, False, True]
    assert spells([Moment(float(at), at, on) for at, on in enumerate(marked)]) == [(1.0, 3.0)]
