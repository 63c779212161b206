import itertools
import math
from collections.abc import Callable

import pytest

from stoker_tuning.learning.changes import Change, ChangeVerdict
from stoker_tuning.learning.halving_search import candidates
from stoker_tuning.learning.knob_tuner import CHECK_EVERY, KnobTuner
from stoker_tuning.recommend.knobs import KNOB_BY_NAME, KNOBS, Knob, KnobKind
from tests.unit.stoker_tuning.learning.simulation import (
    Response,
    SimulatedWorkload,
    change,
    falling,
    flat,
    peaked,
    saturating,
)

DEPTH = KNOB_BY_NAME["prefetch_depth"]
# An epoch of 500 s in windows of 10 s; what is tried has to have found the best within so many of them.
EPOCH, EPOCHS = 50, 8
RISING = {"saturating": saturating(64), "late": saturating(1000), "peaked": peaked(300, 1.0)}
TUNABLE = [knob for knob in KNOBS if knob.kind in (KnobKind.BYTES, KnobKind.COUNT)]


def tuner(start: float, seed: int) -> KnobTuner:
    numbers = itertools.count()

    def make(old: float, new: float) -> Change:
        return change(old, new, f"{seed}-{next(numbers)}", "learning")

    return KnobTuner(DEPTH, start, make, str(seed))


def run(one: KnobTuner, workload: SimulatedWorkload, windows: int) -> list[float]:
    """Return the true response in each window."""
    found = []
    for number in range(windows):
        value = one.value
        found.append(workload.response(value) * workload.drift(workload.windows))
        one.saw(workload.run(value), float(number))
    return found


def best_of(response: Response) -> float:
    return max(response(math.exp(power / 50)) for power in range(int(50 * math.log(DEPTH.most)) + 1))


@pytest.mark.parametrize("response", RISING.values(), ids=RISING.keys())
@pytest.mark.parametrize("seed", range(5))
def test_from_far_too_small_it_comes_within_a_tenth_of_the_best(response: Response, seed: int) -> None:
    one = tuner(1, seed)
    run(one, SimulatedWorkload(response, 0.1, seed=seed), EPOCHS * EPOCH)

    assert response(one.adopted) >= 0.9 * best_of(response)


@pytest.mark.parametrize("response", [falling, peaked(16, 1.5)], ids=["falling", "peaked"])
@pytest.mark.parametrize("seed", range(5))
def test_from_far_too_large_it_comes_within_a_tenth_of_the_best(response: Response, seed: int) -> None:
    one = tuner(4096, seed)
    run(one, SimulatedWorkload(response, 0.1, seed=seed), EPOCHS * EPOCH)

    assert response(one.adopted) >= 0.9 * best_of(response)


@pytest.mark.parametrize("noise", [0.02, 0.2])
@pytest.mark.parametrize(
    ("response", "start"),
    [(flat, 64), (falling, 1), (saturating(8), 4096), (peaked(64, 0.8), 64), (lambda v: 1.0 if v == 64 else 0.05, 64)],
    ids=["flat", "falling", "saturated", "peak", "all else is awful"],
)
def test_a_run_is_never_worse_than_the_start_by_a_twentieth(response: Response, start: float, noise: float) -> None:
    for seed in range(5):
        seen = run(tuner(start, seed), SimulatedWorkload(response, noise, seed=seed), 1000)
        totals = list(itertools.accumulate(seen))

        assert min(total / (response(start) * (n + 1)) for n, total in enumerate(totals) if n >= EPOCH) >= 0.95


def test_what_drifts_by_itself_does_not_mislead_it() -> None:
    def slower_and_faster(window: int) -> float:
        return 1 + 0.5 * math.sin(window / 40)

    for seed in range(5):
        one = tuner(1, seed)
        run(one, SimulatedWorkload(saturating(64), 0.1, slower_and_faster, seed), EPOCHS * EPOCH)

        assert saturating(64)(one.adopted) >= 0.9 * best_of(saturating(64))


def changing_at(when: Callable[[], bool], first: Response, then: Response) -> Response:
    return lambda value: then(value) if when() else first(value)


@pytest.mark.parametrize("seed", range(5))
def test_what_begins_to_hurt_is_taken_back(seed: int) -> None:
    changed = [False]
    response = changing_at(lambda: changed[0], saturating(200), falling)
    one, workload = tuner(16, seed), SimulatedWorkload(response, 0.1, seed=seed)
    while not one.settled or one.adopted == 16:
        run(one, workload, 1)
    changed[0] = True
    one.outcomes.clear()
    run(one, workload, CHECK_EVERY + 10)

    assert one.adopted == 16
    assert [(outcome.verdict, outcome.taken_back) for outcome in one.outcomes] == [(ChangeVerdict.HURT, True)]


def test_every_change_that_is_adopted_was_proved() -> None:
    one = tuner(1, 0)
    run(one, SimulatedWorkload(saturating(64), 0.1), EPOCHS * EPOCH)
    helped = [outcome for outcome in one.outcomes if outcome.verdict is ChangeVerdict.HELPED]

    assert one.adopted == helped[-1].change.new
    assert all(outcome.low > 0 for outcome in helped)


@pytest.mark.parametrize("knob", TUNABLE, ids=[knob.name for knob in TUNABLE])
def test_candidates_are_within_the_knobs_bounds(knob: Knob) -> None:
    found = candidates(knob)

    assert found == sorted(set(found))
    assert 3 <= len(found) <= 9
    assert knob.least <= found[0] < found[-1] <= knob.most
