"""Readers that wait for data read all the time. Readers that the training waits for rest between their batches."""

from collections.abc import Iterable

from stoker_sidecar.agent.orders.pages_ahead import BatchRests
from tests.support.cases import cases

STRETCH = 1600


def looked(rests: BatchRests, steps: Iterable[float], begin: float = 0.0) -> int:
    """Observe readers at these steps, four times per second. Return the number of reported changes."""
    return sum(rests.saw(begin + number / 4, step) for number, step in enumerate(steps))


def test_loaders_that_read_a_batch_and_then_wait_rest() -> None:
    rests = BatchRests(STRETCH)
    assert looked(rests, [number // 8 * STRETCH for number in range(48)]) == 1
    assert rests.resting


def test_loaders_that_read_all_the_time_do_not_rest() -> None:
    rests = BatchRests(STRETCH)
    assert looked(rests, [200 * number for number in range(100)]) == 0
    assert not rests.resting


def test_loaders_who_begin_to_wait_for_data_rest_no_more() -> None:
    rests = BatchRests(STRETCH)
    looked(rests, [number // 8 * STRETCH for number in range(48)])
    assert looked(rests, [8_000 + 200 * number for number in range(100)], 100.0) == 1
    assert not rests.resting


def test_loaders_that_all_begin_at_once_as_an_epoch_begins_rest_as_before() -> None:
    rests = BatchRests(STRETCH)
    looked(rests, [number // 8 * STRETCH for number in range(48)])
    assert looked(rests, [8_000 + 1_600 * number for number in range(5)], 100.0) == 0
    assert looked(rests, [16_000 + number // 8 * STRETCH for number in range(48)], 200.0) == 0
    assert rests.resting


@cases(
    "steps",
    fast_readers_of_which_few_looks_tell_little=[number // 3 * 2 * STRETCH for number in range(60)],
    a_long_pause_alone=[0.0] * 1000,
    readers_who_went_back=[*([5.0 * STRETCH] * 20), *([0.0] * 20), STRETCH],
)
def test_what_is_no_rest(steps: list[float]) -> None:
    assert looked(BatchRests(STRETCH), steps) == 0


def test_answers_that_come_at_once_are_one_look() -> None:
    rests = BatchRests(STRETCH)
    for number in range(100):
        for _ in range(5):
            assert not rests.saw(number / 4, 200.0 * number)
