import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.learning.experiment import MOST_PAIRS, helped, hurt, interval, log_ratio

DIFFERENCES = st.lists(st.floats(-2, 2), min_size=1, max_size=MOST_PAIRS)


Draw = Callable[[random.Random], float]


def share_of_errors(test: Callable[[list[float]], bool], draw: Draw, runs: int = 400) -> float:
    wrong = 0
    for seed in range(runs):
        coin = random.Random(seed)
        seen: list[float] = []
        for _ in range(MOST_PAIRS):
            seen.append(draw(coin))
            if test(seen):
                wrong += 1
                break
    return wrong / runs


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda coin: coin.gauss(0, 0.1), id="normal"),
        pytest.param(lambda coin: coin.choice((-1, 1)) * coin.paretovariate(1.2) / 50, id="heavy tails"),
        pytest.param(lambda coin: coin.choice((-0.01, 0.01)), id="two values"),
    ],
)
def test_what_does_nothing_is_judged_wrongly_no_oftener_than_stated(draw: Draw) -> None:
    assert share_of_errors(helped, draw) <= 0.05
    assert share_of_errors(hurt, draw) <= 0.10


def test_a_clear_gain_is_known_after_five_pairs_and_a_clear_loss_after_four() -> None:
    assert [helped([0.5] * pairs) for pairs in (4, 5)] == [False, True]
    assert [hurt([-0.5] * pairs) for pairs in (3, 4)] == [False, True]


def test_the_interval_holds_the_true_gain() -> None:
    coin = random.Random(3)
    low, high = interval([0.2 + coin.gauss(0, 0.1) for _ in range(MOST_PAIRS)])

    assert low < 0.2214 < high
    assert high - low < 0.25


@given(DIFFERENCES)
def test_the_interval_is_on_the_side_that_the_test_says(differences: list[float]) -> None:
    low, high = interval(differences)

    assert low <= high
    if helped(differences):
        assert low >= -1e-6


def test_windows_in_which_nothing_is_read_have_no_ratio_and_one_of_them_a_bounded_one() -> None:
    assert log_ratio(0, 0) is None
    assert log_ratio(1000, 0) == -(log_ratio(0, 1000) or 0) == pytest.approx(2.079, abs=0.001)
