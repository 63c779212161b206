from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_orders.following import OrderFollower, OrderState, ReadSample
from stoker_orders.job_order import JobOrder
from stoker_orders.loader_schedule import Loading
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap, ListedFile, RecordMap
from stoker_orders.sampling_plan import SamplingPlan
from tests.support.cases import cases

FILES = 20_000
FIRST = 7  # the number of the first file


def plan(**changed: Any) -> SamplingPlan:
    usual = SamplingPlan(SamplerName.TORCH_DISTRIBUTED, seed=3, epochs=5, batch=16, loaders=4)
    return replace(usual, **changed)


def order(said: SamplingPlan, ranks: tuple[int, ...] = (0,), files: int = FILES) -> JobOrder:
    return JobOrder(said, FileMap(range(FIRST, FIRST + files)), ranks)


def reading(truth: JobOrder, epoch: int, step: int = 0) -> list[ReadSample]:
    """Return the reads from a step of an epoch on, by loaders that take turns."""
    return [ReadSample(piece.file) for piece in truth.pieces(truth.epoch(epoch), step)]


def follow(follower: OrderFollower, reads: list[ReadSample], some: int = 100) -> None:
    """Pass the reads to the follower, ``some`` at a time, and compute each wanted epoch at once."""
    for start in range(0, len(reads), some):
        while (wanted := follower.wanted) is not None:
            follower.give(follower.order.epoch(wanted))
        follower.saw(reads[start : start + some])


def test_reads_in_the_order_are_all_taken_over_several_epochs() -> None:
    follower = OrderFollower(order(plan()))
    for epoch in range(3):
        follow(follower, reading(follower.order, epoch))
    assert (follower.state, follower.agreement, follower.epoch) == (OrderState.KNOWN, 100, 2)
    assert follower.difference is None


def test_another_seed_is_wrong_and_costs_nothing_any_more() -> None:
    follower = OrderFollower(order(plan()))
    follow(follower, reading(order(plan(seed=4_000)), 0))
    assert follower.state is OrderState.WRONG
    assert follower.wanted is None
    assert not list(follower.ahead())


def test_the_first_difference_is_remembered() -> None:
    truth = order(plan())
    reads = reading(truth, 0)
    far = reads[10_000]
    follower = OrderFollower(order(plan()))
    follow(follower, [*reads[:50], far, *reads[50:1000]])
    assert follower.difference is not None
    assert (follower.difference.read, follower.difference.seen) == (51, far.file)
    assert follower.state is OrderState.KNOWN


def test_a_restart_in_the_middle_of_an_epoch_is_found_again() -> None:
    follower = OrderFollower(order(plan()))
    follow(follower, reading(follower.order, 0)[:2_000])
    follow(follower, reading(follower.order, 0, step=12_000)[:1_000])
    assert (follower.state, follower.found_again) == (OrderState.KNOWN, 1)
    assert 12_000 <= follower.step <= 13_200


@pytest.mark.parametrize("sampler", [SamplerName.TORCH_DISTRIBUTED, SamplerName.TORCH_SEQUENTIAL])
def test_a_restart_is_found_though_epochs_are_tried_before_all_that_was_read_last_is_of_it(
    sampler: SamplerName,
) -> None:
    follower = OrderFollower(order(plan(sampler=sampler)))
    follow(follower, reading(follower.order, 0)[:2_000])
    follow(follower, reading(follower.order, 0, step=12_000)[:1_000], some=1)
    assert (follower.state, follower.epoch, follower.found_again) == (OrderState.KNOWN, 0, 1)


def test_an_epoch_whose_order_is_computed_late_is_found() -> None:
    follower = OrderFollower(order(plan()))
    follow(follower, reading(follower.order, 0)[: FILES // 2])
    follower.saw(reading(follower.order, 0)[FILES // 2 :])  # no order is computed until then
    follower.saw(reading(follower.order, 1)[:14])
    follow(follower, reading(follower.order, 1)[14:1_000], some=1)
    assert (follower.state, follower.epoch) == (OrderState.KNOWN, 1)


LONG = {"batch": 4, "loaders": 2}  # such epochs need some hundred steps to find a place


def test_a_restart_within_an_epoch_of_a_long_run_is_found_though_few_reads_are_seen_at_a_time() -> None:
    follower = OrderFollower(order(plan(epochs=1_000_000), files=4_000))
    follow(follower, reading(follower.order, 0)[:2_000])
    follow(follower, reading(follower.order, 0)[:1_000], some=1)
    assert (follower.state, follower.epoch, follower.found_again) == (OrderState.KNOWN, 0, 1)


def test_a_job_that_begins_in_epoch_250_of_300_is_found() -> None:
    follower = OrderFollower(order(plan(epochs=300, **LONG), files=600))
    follow(follower, reading(follower.order, 250, step=100), some=10)
    assert (follower.state, follower.epoch) == (OrderState.KNOWN, 250)


def test_every_epoch_of_a_run_is_looked_through_before_the_order_is_wrong() -> None:
    follower = OrderFollower(order(plan(epochs=120, **LONG), files=400))
    follow(follower, reading(order(plan(seed=4_000, **LONG), files=400), 0), some=10)
    assert (follower.state, follower.tried) == (OrderState.WRONG, 120)


def test_an_order_is_not_wrong_before_two_stretches_of_reads_were_looked_for() -> None:
    follower = OrderFollower(order(plan(epochs=5, **LONG), files=600))
    reads = reading(order(plan(seed=4_000, **LONG), files=600), 0)
    follow(follower, reads[:95], some=1)
    assert follower.is_searching
    follow(follower, reads[95:98], some=1)
    assert follower.state is OrderState.WRONG


def test_readers_who_go_on_to_other_epochs_while_they_are_looked_for_are_found() -> None:
    """The search tries one epoch per hundred reads. The readers are two epochs further when it reaches theirs."""
    follower = OrderFollower(order(plan(epochs=40, **LONG), files=600))
    follower.give(follower.order.epoch(0))
    reads = [one for epoch in (12, 13, 14, 15, 16) for one in reading(follower.order, epoch)]
    for start in range(0, len(reads), 100):
        follower.saw(reads[start : start + 100])
        if (wanted := follower.wanted) is not None:
            follower.give(follower.order.epoch(wanted))
    assert (follower.state, follower.epoch) == (OrderState.KNOWN, 16)


def test_a_job_that_is_started_once_more_while_it_is_looked_for_is_found() -> None:
    """The first searched reads come from two places, so that neither place matches."""
    follower = OrderFollower(order(plan(epochs=40, **LONG), files=600))
    follow(follower, reading(follower.order, 0)[:200], some=1)
    reads = reading(follower.order, 20)[:32] + reading(follower.order, 30, step=300)
    while reads and not follower.is_searching:
        follower.saw([reads.pop(0)])
    while reads and follower.wanted is None:
        follower.saw([reads.pop(0)])
    follow(follower, reads, some=1)
    assert (follower.state, follower.epoch) == (OrderState.KNOWN, 30)


def test_readers_are_found_where_they_were_when_others_read_in_between() -> None:
    follower = OrderFollower(order(plan(epochs=5), files=4_000))
    reads = reading(follower.order, 0)
    follow(follower, reads[:1_000])
    for number in range(120):
        follower.saw([ReadSample(FIRST + number)])  # no order is computed until then
    assert follower.is_searching
    follower.saw(reads[1_000:1_200])
    assert (follower.state, follower.is_searching, follower.epoch) == (OrderState.KNOWN, False, 0)
    assert 1_190 <= follower.step <= 1_390


def test_an_order_that_comes_when_it_is_not_wanted_any_more_is_no_next_epoch() -> None:
    follower = OrderFollower(order(plan()))
    follower.give(follower.order.epoch(0))
    follower.give(follower.order.epoch(3))
    assert [one.number for one in follower.known] == [0]


def test_a_job_that_begins_in_a_later_epoch_is_found() -> None:
    follower = OrderFollower(order(plan()))
    follow(follower, reading(follower.order, 3, step=9_000)[:1_500])
    assert (follower.state, follower.epoch) == (OrderState.KNOWN, 3)


def test_another_world_size_is_found_by_what_is_read() -> None:
    follower = OrderFollower(order(plan(ranks=4, rank=1), ranks=(1,)))
    follow(follower, reading(follower.order, 0)[:1_000])
    follow(follower, reading(order(plan(ranks=3, rank=2), ranks=(2,)), 0, step=2_000)[:1_500])
    assert (follower.state, follower.loading.ranks, follower.loading.here) == (OrderState.KNOWN, 3, (2,))


@cases("ranks, here, now, now_here", (4, (0, 1), 3, (0, 2)), (8, (2, 3, 6, 7), 6, (0, 1, 4, 5)))
def test_another_world_size_is_found_where_several_pods_are_on_the_node(
    ranks: int, here: tuple[int, ...], now: int, now_here: tuple[int, ...]
) -> None:
    each = 2 if ranks == 8 else 1
    follower = OrderFollower(order(plan(ranks=ranks, ranks_here=each), ranks=here))
    follow(follower, reading(follower.order, 0)[:2_000])
    follow(follower, reading(order(plan(ranks=now), ranks=now_here), 0, step=2_000)[:1_500])
    assert (follower.state, follower.loading.ranks, follower.loading.here) == (OrderState.KNOWN, now, now_here)
    assert follower.agreement == 100


def test_fewer_pods_of_eight_ranks_are_found() -> None:
    follower = OrderFollower(order(plan(ranks=128, ranks_here=8, batch=2), ranks=tuple(range(8, 16)), files=80_000))
    truth = order(plan(ranks=96, batch=2), ranks=tuple(range(16, 24)), files=80_000)
    follow(follower, reading(truth, 0, step=400)[:1_500])
    assert (follower.state, follower.loading.ranks, follower.loading.here[0]) == (OrderState.KNOWN, 96, 16)


@cases("seed, state", enough_to_know_the_order=(3, OrderState.KNOWN), makes_no_other_agree=(4_000, OrderState.WRONG))
def test_a_sample_of_the_reads_tells_the_order(seed: int, state: OrderState) -> None:
    follower = OrderFollower(order(plan()))
    reads = reading(order(plan(seed=seed)), 0)
    for start in range(0, len(reads), 1_000):
        while (wanted := follower.wanted) is not None:
            follower.give(follower.order.epoch(wanted))
        follower.saw(reads[start : start + 100], unseen=900)
    assert (follower.state, follower.agreement == 100) == (state, state is OrderState.KNOWN)


def test_files_that_are_no_samples_do_not_count() -> None:
    follower = OrderFollower(order(plan()))
    reads = reading(follower.order, 0)
    follow(follower, [one for read in reads[:500] for one in (read, ReadSample(FIRST + FILES + 5))])
    assert (follower.reads, follower.agreement) == (500, 100)


def test_what_is_ahead_is_what_is_read_next() -> None:
    follower = OrderFollower(order(plan()))
    reads = reading(follower.order, 0)
    follow(follower, reads[:3_000])
    ahead = follower.ahead()
    soon = {piece.file for _, piece in zip(range(300), ahead, strict=False)}
    assert {read.file for read in reads[3_000:3_100]} <= soon


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("turn", [1, 16])
@pytest.mark.parametrize("drop_last", [True, False])
def test_ranks_share_every_sample_of_an_epoch(ranks: int, turn: int, drop_last: bool) -> None:
    loading = Loading(1_000, ranks, tuple(range(ranks)), turn, 16, 3, drop_last=drop_last)
    indices = list(loading.indices(0))
    assert sorted(indices) == list(range(loading.total))


def _steps(loading: Loading) -> Iterator[tuple[int, int]]:
    return ((loading.step(index), loading.rank(index)) for index in range(loading.total))


def test_an_index_is_read_at_its_step_by_its_rank() -> None:
    loading = Loading(1_000, 4, (1,), 16)
    assert [loading.index(*each) for each in _steps(loading)] == list(range(loading.total))


def test_loaders_read_a_batch_each_at_the_same_time() -> None:
    loading = Loading(8, 1, (0,), batch=2, loaders=2)
    assert list(loading.indices(0)) == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_batch_comes_whole_before_the_next() -> None:
    loading = Loading(16, 2, (0, 1), batch=2, loaders=2)
    assert list(loading.in_batches(0)) == list(range(16))


@given(st.integers(1, 300), st.integers(1, 3), st.integers(1, 9), st.integers(0, 4), st.integers(0, 300))
def test_batches_one_after_the_other_are_what_loaders_read_at_once(
    samples: int, ranks: int, batch: int, loaders: int, step: int
) -> None:
    loading = Loading(samples, ranks, (0,), batch=batch, loaders=loaders)
    assert sorted(loading.in_batches(step)) == sorted(loading.indices(step))


def test_what_is_ahead_begins_with_a_whole_batch() -> None:
    follower = OrderFollower(order(plan(batch=8, loaders=4)))
    epoch = follower.order.epoch(0)
    follower.give(epoch)
    first = [piece.file for _, piece in zip(range(8), follower.ahead(), strict=False)]
    assert first == [follower.order.map.piece(sample).file for sample in epoch.samples[:8]]


def test_an_epoch_so_short_that_any_order_would_agree_is_not_known() -> None:
    follower = OrderFollower(order(plan(), files=300))
    follow(follower, reading(follower.order, 0))
    assert (follower.state, follower.agreement) == (OrderState.UNKNOWN, 100)


def test_an_epoch_so_short_that_nothing_can_be_found_in_it_is_not_lost_by_some_reads() -> None:
    """An epoch ends and another begins between two looks. Many reads seem to belong to neither."""
    follower = OrderFollower(order(plan(batch=400), files=10_000))
    follow(follower, reading(follower.order, 0)[:2_000])
    follow(follower, [ReadSample(FIRST + number) for number in follower.order.epoch(0).samples[9_000:9_040]])
    assert not follower.is_searching
    follow(follower, reading(follower.order, 0, 2_000)[:1_000])
    assert (follower.state, follower.agreement, follower.epoch) == (OrderState.UNKNOWN, 100, 0)


def test_of_a_short_epoch_too_another_order_is_wrong() -> None:
    follower = OrderFollower(order(plan(batch=400), files=10_000))
    for epoch in range(2):
        follow(follower, reading(order(plan(batch=400, seed=4_000), files=10_000), epoch))
    assert follower.state is OrderState.WRONG


def test_samples_in_one_large_file_are_followed_by_where_is_read() -> None:
    records = RecordMap(ListedFile(9, b"all.bin", 16 + 100 * 5_000), record=100, header=16)
    follower = OrderFollower(JobOrder(plan(loaders=0), records, (0,)))
    truth = JobOrder(plan(loaders=0), records, (0,))
    follow(follower, [ReadSample(one.file, one.offset) for one in truth.pieces(truth.epoch(0), 0)])
    assert (follower.state, follower.agreement) == (OrderState.KNOWN, 100)


def test_several_ranks_on_a_node_are_followed_together() -> None:
    follower = OrderFollower(order(plan(ranks=4), ranks=(1, 2)))
    follow(follower, reading(follower.order, 0))
    assert (follower.state, follower.agreement, follower.step) == (OrderState.KNOWN, 100, FILES // 4 - 1)


def test_a_pod_whose_rank_nobody_said_is_found_by_what_it_reads() -> None:
    follower = OrderFollower(order(plan(ranks=4), ranks=(0,)))
    follow(follower, reading(order(plan(ranks=4, rank=3), ranks=(3,)), 0))
    assert (follower.state, follower.loading.here, follower.agreement) == (OrderState.KNOWN, (3,), 100)


def test_a_place_that_is_known_by_other_means_is_where_reads_are_looked_for() -> None:
    follower = OrderFollower(order(plan()))
    follower.give(follower.order.epoch(0))
    follower.reckon(10_000.0, 500.0)
    for start in (9_600, 9_800, 10_000):
        follower.saw(reading(follower.order, 0, start)[:50])
    assert (follower.agreement, follower.found_again) == (100, 0)


@cases("place, error", of_another_epoch=(FILES + 100.0, 10.0), too_rough_to_tell_orders_apart=(10_000.0, 6_000.0))
def test_a_place_that_says_little_is_left_alone(place: float, error: float) -> None:
    follower = OrderFollower(order(plan()))
    follower.give(follower.order.epoch(0))
    follower.reckon(place, error)
    assert (follower.loading.steps, follower.step) == (FILES, 0)


def test_a_short_epoch_ends_where_its_readers_are_known_by_other_means_to_be_in_the_next() -> None:
    """Reads after a gap seem to belong to neither epoch, because too many reads in the gap were missed."""
    follower = OrderFollower(order(plan(batch=400), files=10_000))
    follow(follower, reading(follower.order, 0)[:2_000])
    follower.give(follower.order.epoch(1))
    follower.reckon(13_000.0, 500.0)
    assert (follower.epoch, follower.step) == (1, 2_500)
    follow(follower, reading(follower.order, 1, 2_500)[:500])
    assert (follower.state, follower.agreement) == (OrderState.UNKNOWN, 100)


@given(st.integers(1, 50), st.integers(1, 8), st.integers(0, 2000))
def test_no_more_is_surely_read_than_loaders_have_read_who_are_at_the_same_place_or_read_in_turn(
    batch: int, loaders: int, step: int
) -> None:
    loading = Loading(2_500, 1, (0,), batch=batch, loaders=loaders)
    order = list(loading.indices(0))
    assert 0 <= loading.surely_read(step) <= min(step, order.index(step))
