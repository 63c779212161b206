"""The next pieces come as a stream across epochs, and are counted as readers pass them."""

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_orders.job_order import JobOrder
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap, ListedFile, RecordMap, ShardMap
from stoker_orders.sampling_plan import SamplingPlan
from stoker_sidecar.agent.orders.order_stream import OrderStream

FILES, FIRST = 500, 7


def order(here: tuple[int, ...] = (0,), **said: Any) -> JobOrder:
    usual: dict[str, Any] = {"seed": 3, "epochs": 3, "batch": 4, "loaders": 2}
    plan = SamplingPlan(SamplerName.TORCH_DISTRIBUTED, **(usual | said))
    return JobOrder(plan, FileMap(range(FIRST, FIRST + FILES)), here)


def taken(stream: OrderStream, job: JobOrder, most: int = 100, enough: int = 10_000) -> list[tuple[int, int, int]]:
    """Take pieces, at most ``most`` at a time, until there are ``enough`` or the stream ends."""
    found: list[tuple[int, int, int]] = []
    while len(found) < enough and not stream.ended:
        if stream.wanted is not None:
            stream.give(job.epoch(stream.wanted))
        found += struct.iter_unpack("<IIQ", stream.take(most))
    return found


@settings(max_examples=40)
@given(st.integers(1, 700), st.integers(0, 499))
def test_pieces_come_in_their_order(most: int, step: int) -> None:
    job = order()
    files = [file for file, _, _ in taken(OrderStream(job, job.loading, step), job, most)]
    expected = [piece.file for piece in job.pieces(job.epoch(0), step)]
    for epoch in (1, 2):
        expected += [piece.file for piece in job.pieces(job.epoch(epoch), 0)]
    assert files == expected


def test_a_stream_may_begin_in_a_later_epoch() -> None:
    job = order()
    files = [file for file, _, _ in taken(OrderStream(job, job.loading, 2 * job.loading.steps), job)]
    assert files == [piece.file for piece in job.pieces(job.epoch(2), 0)]


def test_one_order_of_all_epochs_is_computed_once() -> None:
    job = order(reseeds=False)
    stream = OrderStream(job, job.loading, 0)
    stream.give(job.epoch(0))
    while not stream.ended:
        assert stream.take(1000)
        assert stream.wanted is None
    assert stream.number == 3 * FILES


@settings(max_examples=40)
@given(st.integers(1, 300), st.floats(0.0, 1499.0))
def test_pieces_are_counted_by_steps(most: int, step: float) -> None:
    job = order()
    stream = OrderStream(job, job.loading, 0)
    taken(stream, job, most)
    assert abs(stream.number_at(step) - step) < 1e-6


@settings(max_examples=40)
@given(st.integers(1, 300), st.floats(0.0, 1499.0))
def test_the_step_of_a_piece_has_its_count(most: int, number: float) -> None:
    job = order()
    stream = OrderStream(job, job.loading, 0)
    taken(stream, job, most)
    step = stream.step_at(number)
    assert step is not None
    assert abs(stream.number_at(step) - number) < 1e-6


def test_a_piece_that_was_forgotten_has_no_step() -> None:
    job = order()
    stream = OrderStream(job, job.loading, 0)
    taken(stream, job, most=10)
    stream.forget(1000.0)
    assert stream.step_at(10.0) is None


def test_two_ranks_have_two_pieces_a_step() -> None:
    job = order((0, 1), ranks=2)
    stream = OrderStream(job, job.loading, 0)
    taken(stream, job)
    assert stream.number_at(100.0) == 200.0


def test_forgotten_pieces_still_count() -> None:
    job = order()
    stream = OrderStream(job, job.loading, 0)
    taken(stream, job)
    stream.forget(1000.0)
    assert stream.number_at(1200.0) == 1200.0
    assert stream.number_at(10.0) <= 1000.0


def test_a_shard_is_named_once_for_the_samples_that_follow_each_other() -> None:
    plan = SamplingPlan(SamplerName.TORCH_SEQUENTIAL, epochs=1)
    job = JobOrder(plan, ShardMap.of([3, 4], [50, 50]), (0,))
    assert taken(OrderStream(job, job.loading, 0), job) == [(3, 0, 0), (4, 0, 0)]


def test_records_are_named_by_their_bytes() -> None:
    plan = SamplingPlan(SamplerName.TORCH_SEQUENTIAL, epochs=1)
    job = JobOrder(plan, RecordMap(ListedFile(9, b"f", 310), 100, 10), (0,))
    assert taken(OrderStream(job, job.loading, 0), job) == [(9, 100, 10), (9, 100, 110), (9, 100, 210)]


def test_nothing_comes_before_an_order_is_given_and_after_the_last() -> None:
    job = order()
    stream = OrderStream(job, job.loading, 0)
    assert stream.take(10) == b""
    taken(stream, job)
    assert (stream.take(10), stream.wanted) == (b"", None)


def test_loaders_that_read_one_batch_after_the_other_have_each_batch_whole() -> None:
    job = order()
    stream = OrderStream(job, job.loading, 0, in_batches=True)
    files = [file for file, _, _ in taken(stream, job)]
    samples = job.epoch(0).samples
    assert files[:FILES] == [job.map.piece(sample).file for sample in samples]
