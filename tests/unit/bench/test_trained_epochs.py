"""What later epochs' first batches take is told beside all others, and nothing of the first epoch."""

import pytest

from bench.trained_epochs import ACCELERATORS, later_epochs


def test_the_first_batches_of_later_epochs_are_compared_with_all_their_others() -> None:
    cold = [(9.0, 0.0)] * 3
    found = later_epochs([cold, [(0.4, 0.5), (0.2, 1.0), (0.2, 1.0)], [(0.6, 0.7), (0.2, 1.0), (0.2, 0.6)]])
    assert (found.first, found.middle, found.ratio) == pytest.approx((0.5, 0.2, 2.5))
    assert (found.there, found.middle_there) == pytest.approx((60.0, 90.0))


@pytest.mark.parametrize("epochs", [[], [[(1.0, 1.0)] * 3], [[(1.0, 1.0)] * 3, [(1.0, 1.0)]]])
def test_less_than_two_epochs_of_two_batches_say_nothing(epochs: list[list[tuple[float, float]]]) -> None:
    with pytest.raises(ValueError, match="two epochs"):
        later_epochs(epochs)


def test_cases_are_told_apart_by_their_accelerator() -> None:
    assert len({one.case for one in ACCELERATORS}) == len(ACCELERATORS)
