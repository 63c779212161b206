"""Numbers that were adopted are known again from what came of changes."""

from dataclasses import replace

import pytest

from stoker_tuning.learning.adopted import MOST_ADOPTED, NUMBERS_ORIGIN, AdoptedNumbers
from stoker_tuning.learning.changes import ChangeOutcome, ChangeVerdict, WindowFigures
from stoker_tuning.rules.spec import KnobValue
from tests.unit.stoker_tuning.learning.simulation import change

FIGURES = WindowFigures(5, 100.0)
DATASET, KNOB = "vision/imagenet", "prefetch_depth"


def outcome(old: KnobValue, new: KnobValue, verdict: ChangeVerdict, origin: str = NUMBERS_ORIGIN) -> ChangeOutcome:
    made = replace(change(origin=origin), old=old, new=new)
    back = verdict is not ChangeVerdict.HELPED
    return ChangeOutcome(made, 1.0, verdict, 0.1, 0.0, 0.2, FIGURES, FIGURES, taken_back=back)


def known(*outcomes: ChangeOutcome, start: float = 4.0) -> float | None:
    numbers = AdoptedNumbers()
    for each in outcomes:
        numbers.learn(each)
    return numbers.of(DATASET, KNOB, start)


HELPED, HURT, NEUTRAL = ChangeVerdict.HELPED, ChangeVerdict.HURT, ChangeVerdict.NEUTRAL


def test_the_last_of_several_steps_is_in_force_in_place_of_the_first_value() -> None:
    assert known(outcome(4.0, 64.0, HELPED), outcome(64.0, 128.0, HELPED)) == 128.0


def test_what_was_found_from_another_beginning_is_not_taken() -> None:
    assert known(outcome(4.0, 64.0, HELPED), start=8.0) is None


def test_what_hurts_later_is_not_known_any_more() -> None:
    assert known(outcome(4.0, 64.0, HELPED), outcome(4.0, 64.0, HURT)) is None


@pytest.mark.parametrize("verdict", [HURT, NEUTRAL])
def test_what_was_tried_in_vain_leaves_what_was_adopted(verdict: ChangeVerdict) -> None:
    assert known(outcome(4.0, 64.0, HELPED), outcome(64.0, 256.0, verdict)) == 64.0


@pytest.mark.parametrize("made", [outcome("unset", 64.0, HELPED), outcome(4.0, 64.0, HELPED, origin="a-rule")])
def test_changes_of_rules_adopt_no_number(made: ChangeOutcome) -> None:
    assert known(made) is None


def test_of_many_datasets_those_that_were_heard_of_last_are_known() -> None:
    numbers = AdoptedNumbers()
    for number in range(MOST_ADOPTED + 1):
        one = outcome(4.0, 64.0, HELPED)
        numbers.learn(replace(one, change=replace(one.change, dataset=f"vision/{number}")))

    assert numbers.of("vision/0", KNOB, 4.0) is None
    assert numbers.of("vision/1", KNOB, 4.0) == 64.0
