"""The full window of an order is sent at long intervals. In between, only the position of its readers is sent."""

import struct
from collections.abc import Iterable
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_orders.following import OrderFollower, ReadSample
from stoker_orders.job_order import JobOrder
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap, ListedFile, RecordMap, SampleMap, ShardMap
from stoker_orders.sampling_plan import SamplingPlan
from stoker_sidecar.agent.orders.order_rows import chunks_of, window
from stoker_sidecar.agent.orders.sent_window import LEAST_WINDOW, SentWindow
from stoker_sidecar.wire.fetcher_hints import MOST_AHEAD

FILES, STRETCH, RECORD = 6000, 8, 3 * 2**20


def follower_of(samples: SampleMap, sampler: SamplerName = SamplerName.TORCH_DISTRIBUTED) -> OrderFollower:
    plan = SamplingPlan(sampler, seed=3, epochs=3, batch=4, loaders=2)
    follower = OrderFollower(JobOrder(plan, samples, (0,)))
    follower.give(follower.order.epoch(0))
    return follower


def told_from(follower: OrderFollower, most: int = LEAST_WINDOW) -> tuple[list[tuple[int, int]], SentWindow]:
    """Send a window at second 0. Return its pieces too."""
    pieces = window(follower.ahead(), most)
    return unpacked(pieces), SentWindow(follower, pieces, most, 0.0, 0.0)


def unpacked(pieces: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack("<II", pieces))


def read_to(follower: OrderFollower, step: int) -> None:
    """Observe reads of the files up to a step, 16 at a time."""
    order = follower.order
    samples = follower.known[0].samples
    read = [order.map.piece(samples[place]) for place in range(follower.step, step + 1)]
    for start in range(0, len(read), 16):
        follower.saw([ReadSample(one.file, one.offset) for one in read[start : start + 16]])
    assert follower.step == step


@settings(max_examples=25)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=10))
def test_the_rest_of_a_window_equals_the_start_of_a_new_one(steps: Iterable[int]) -> None:
    follower = follower_of(FileMap(range(7, 7 + FILES)))
    pieces, told = told_from(follower)
    for step in steps:
        read_to(follower, follower.step + step)
        told.move_on()
        begins = pieces.index(unpacked(window(follower.ahead(), 1))[0])
        assert told.gone == max(0, begins - 1)


def test_records_count_by_their_chunks() -> None:
    follower = follower_of(RecordMap(ListedFile(9, b"records.bin", FILES * RECORD), RECORD, 0))
    told = told_from(follower)[1]
    read_to(follower, 80)
    assert told.move_on()
    coming = follower.order.pieces_in_batches(follower.known[0], 0, follower.loading)
    past = islice(coming, 80 - STRETCH - 1)
    assert told.gone == sum(len(chunks_of(piece)) for piece in past)


def test_a_shard_that_is_being_read_is_not_past() -> None:
    follower = follower_of(ShardMap.of(range(100, 110), [1000] * 10), SamplerName.TORCH_SEQUENTIAL)
    told = told_from(follower)[1]
    read_to(follower, 2000)
    assert told.move_on()
    assert told.gone == 1


def test_nothing_is_sent_while_readers_stand_still() -> None:
    told = told_from(follower_of(FileMap(range(FILES))))[1]
    assert (told.move_on(), told.is_over(100.0)) == (False, False)


@pytest.mark.parametrize(("step", "now", "over"), [(100, 1.0, False), (100, 5.0, True), (1100, 1.0, True)])
def test_another_window_is_sent_when_a_part_is_past_or_after_a_while(step: int, now: float, over: bool) -> None:
    follower = follower_of(FileMap(range(FILES)))
    told = told_from(follower)[1]
    read_to(follower, step)
    told.move_on()
    assert told.is_over(now) is over


def test_another_window_is_sent_when_it_can_go_on_into_the_next_epoch() -> None:
    follower = follower_of(FileMap(range(1000)))
    read_to(follower, 800)
    told = told_from(follower)[1]
    assert not told.is_over(1.0)
    follower.give(follower.order.epoch(1))
    assert told.is_over(1.0)


def test_another_window_is_sent_where_readers_are_found_again() -> None:
    follower = follower_of(FileMap(range(FILES)))
    told = told_from(follower)[1]
    samples = follower.known[0].samples
    follower.saw([ReadSample(samples[place]) for place in range(5000, 5200)])
    follower.give(follower.order.epoch(1))
    assert follower.found_again
    assert told.is_over(0.1)


@pytest.mark.parametrize(("reads", "most"), [(10, LEAST_WINDOW), (2000, 8000), (50_000, MOST_AHEAD)])
def test_windows_grow_with_the_pace(reads: int, most: int) -> None:
    told = told_from(follower_of(FileMap(range(FILES))))[1]
    assert told.most_of_next(reads, 1.0) == most
