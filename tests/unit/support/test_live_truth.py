"""Live knowledge of a node is compared with the truth."""

import pytest

from tests.support.live_truth import KnownMoment, judge

TRUTH = [
    KnownMoment(0.0, "Training", 0),
    KnownMoment(10.0, "SaveCheckpoint", 0),
    KnownMoment(20.0, "Validation", 0),
    KnownMoment(30.0, None, None),
]


def test_a_phase_that_is_known_late_is_wrong_until_then() -> None:
    known = [KnownMoment(float(second), "Training" if second < 22 else "Validation", 0) for second in range(30)]
    verdict = judge(TRUTH, known)
    assert verdict.phases == pytest.approx(18 / 20)
    assert (verdict.epochs, verdict.slowest, verdict.missed) == (1.0, 2.0, 0)


def test_a_change_that_is_not_noticed_before_the_next_one_is_missed() -> None:
    known = [KnownMoment(float(second), "Training", 0) for second in range(30)]
    assert judge(TRUTH, known).missed == 1
