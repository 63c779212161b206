"""The read order is classified from the last accesses, with a confidence."""

import random
from collections.abc import Iterable, Sequence

import pytest

from stoker_tuning.training.patterns import PatternJudgement, Touch, judge, rank_correlation, runs_score
from stoker_tuning.vocabulary import AccessPattern
from tests.unit.stoker_tuning.training.simulation import by_batches, shuffled

UNITS = 10_000


def begun(rows: Iterable[tuple[int, int]]) -> list[Touch]:
    return [Touch(unit, 0, 0, reader, within=False) for unit, reader in rows]


def judged(rows: Sequence[tuple[int, int]], units: int = UNITS) -> PatternJudgement:
    touches = begun(rows)[-100:]
    return judge(touches, touches, units)


def inside(offsets: Iterable[int], length: int) -> PatternJudgement:
    touches = [Touch(0, offset, offset + length, 1, within=index > 0) for index, offset in enumerate(offsets)]
    return judge(touches, touches[:1], 1)


def test_one_reader_in_order_is_sequential() -> None:
    assert judged([(unit, 1) for unit in range(100)]).pattern is AccessPattern.SEQUENTIAL


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_workers_that_take_batches_in_order_are_sequential(workers: int) -> None:
    rows = by_batches(range(4000), workers, 32)
    assert judged(rows).pattern is AccessPattern.SEQUENTIAL


@pytest.mark.parametrize("at", range(100, 2000, 190))
def test_a_new_epoch_in_order_stays_sequential(at: int) -> None:
    rows = [*by_batches(range(1000), 4, 32), *by_batches(range(1000), 4, 32)]
    assert judged(rows[at - 100 : at]).pattern is AccessPattern.SEQUENTIAL


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("units", [240, UNITS])
def test_a_random_order_of_files_is_shuffled(seed: int, units: int) -> None:
    rows = by_batches(shuffled(range(units), seed), 4, 16)
    assert judged(rows, units).pattern is AccessPattern.SHUFFLED


def test_every_eighth_file_is_strided() -> None:
    found = judged([(unit, 1) for unit in range(3, 800, 8)])
    assert (found.pattern, found.step) == (AccessPattern.STRIDED, 8)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_groups_in_random_order_are_batch_wise(size: int) -> None:
    groups = shuffled(range(0, UNITS, size), 1)
    assert judged([(group + step, 1) for group in groups[:50] for step in range(size)]).pattern is AccessPattern.BATCH


def test_reads_that_go_on_in_a_file_are_sequential() -> None:
    assert inside(range(0, 100 * 131072, 131072), 131072).pattern is AccessPattern.SEQUENTIAL


def test_reads_anywhere_in_a_file_are_random() -> None:
    noise = random.Random(4)
    found = inside((noise.randrange(10**9) for _ in range(100)), 4096)
    assert found.pattern is AccessPattern.RANDOM
    assert found.confidence > 0.8


def test_reads_with_gaps_of_one_size_in_a_file_are_strided() -> None:
    found = inside(range(0, 100 * 65536, 65536), 4096)
    assert (found.pattern, found.step) == (AccessPattern.STRIDED, 65536)


def test_few_accesses_say_nothing() -> None:
    assert judged([(1, 1), (2, 1)]).pattern is AccessPattern.UNKNOWN


def test_more_accesses_make_surer() -> None:
    order = shuffled(range(UNITS), 2)
    few, many = (judged([(unit, 1) for unit in order[:count]]) for count in (10, 100))
    assert few.confidence < many.confidence


def test_the_statistics_of_a_shuffled_order_are_those_of_chance() -> None:
    orders = [shuffled(range(100), seed) for seed in range(50)]
    assert abs(sum(map(rank_correlation, orders)) / 50) < 0.05
    assert abs(sum(map(runs_score, orders)) / 50) < 0.5


def test_the_statistics_of_order_are_far_from_chance() -> None:
    assert rank_correlation(range(100)) == pytest.approx(1.0)
    assert runs_score(range(100)) < -10
