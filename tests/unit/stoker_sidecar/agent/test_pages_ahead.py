"""The fetcher is told what comes next in memory: from where readers are, on over the end of an epoch."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import pytest

from stoker_orders.following import OrderFollower, OrderState, ReadSample
from stoker_orders.job_order import JobOrder
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import AT_FIRST, EpochStart, SamplingPlan
from stoker_sidecar.agent.epoch_orders import EpochOrders
from stoker_sidecar.agent.order_plugins import OrderPlugins
from stoker_sidecar.agent.pages_ahead import PagesAhead
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.wire.fetcher_protocol import Done, Failed, Passed, Reply, Upcoming

FILES, FIRST = 20_000, 7


@dataclass
class Job:
    """A job of one rank whose reads are seen, and what the fetcher is told of it."""

    pages: PagesAhead = field(init=False)
    follower: OrderFollower = field(init=False)
    told: list[Upcoming] = field(default_factory=list)
    now: float = 0.0
    answer: Callable[[], Reply] = Done
    batch: int = 16
    loaders: int = 0
    samples: int = FILES
    start: EpochStart = AT_FIRST

    def __post_init__(self) -> None:
        self.follower = self.begun(self.start)
        self.pages = PagesAhead(self._tell, ("uid", "d" * 64), EpochOrders(OrderPlugins()), lambda: self.now)

    def begun(self, start: EpochStart) -> OrderFollower:
        plan = SamplingPlan(
            SamplerName.TORCH_DISTRIBUTED, seed=3, epochs=3, batch=self.batch, loaders=self.loaders, start=start
        )
        return OrderFollower(JobOrder(plan, FileMap(range(FIRST, FIRST + self.samples)), (0,)))

    async def _tell(self, message: Upcoming) -> Reply:
        self.told.append(message)
        return self.answer()

    @property
    def files(self) -> list[int]:
        """The files that were told, since it was begun anew for the last time."""
        begun = max(place for place, one in enumerate(self.told) if not one.first)
        return [file for one in self.told[begun:] for file, _, _ in struct.iter_unpack("<IIQ", one.pieces)]

    @property
    def unread(self) -> list[int]:
        """The files that were told, without those that come before the readers."""
        return self.files[int(self.told[-1].seen) :]

    def expected(self, epoch: int) -> list[int]:
        return [piece.file for piece in self.follower.order.pieces(self.follower.order.epoch(epoch), 0)]

    async def work(self, *, alone: bool = False) -> None:
        while (wanted := self.follower.wanted) is not None:
            self.follower.give(self.follower.order.epoch(wanted))
        while await self.pages.work(self.follower, "pod", alone=alone):
            pass

    async def read(self, epoch: int, first: int, last: int, seconds: float) -> None:
        """Have reads seen that took so long, and tell of it."""
        self.now += seconds
        self.follower.saw([ReadSample(file) for file in self.expected(epoch)[first:last]], 0.0)
        self.pages.saw(self.follower, self.now)
        await self.work()


async def test_the_first_pieces_are_told_before_anything_is_read() -> None:
    job = Job()
    await job.work()
    assert job.files == job.expected(0)[:8192]


@pytest.mark.parametrize("position", [0, 5_000, 19_900])
async def test_a_job_that_goes_on_in_a_later_epoch_finds_what_is_read_there(position: int) -> None:
    job = Job(loaders=4, start=EpochStart(1, 0, position))
    await job.work()
    samples = [*job.follower.order.epoch(1).samples[position:], *job.follower.order.epoch(2).samples]
    first = {FIRST + sample for sample in samples[:64]}  # a batch of each loader
    assert set(job.unread[:64]) == first
    assert len(job.unread) >= 8_000


async def test_a_job_that_goes_on_among_another_number_of_ranks_is_followed_into_the_next_epoch() -> None:
    """What is left of its first epoch is shorter than those behind it."""
    job = Job(samples=8_000, start=EpochStart(1, 6_000, 0))
    await job.work()
    for first in range(0, 2_000, 500):
        await job.read(1, first, first + 500, seconds=0.5)
    for first in range(0, 1_500, 500):
        await job.read(2, first, first + 500, seconds=0.5)
    assert job.follower.agreement == 100
    assert job.unread[:4_000] == job.expected(2)[1_500 - 1 : 5_500 - 1]


async def test_a_job_that_is_started_once_more_is_followed_from_there() -> None:
    job = Job()
    await job.work()
    for first in range(0, 4_000, 1_000):
        await job.read(0, first, first + 1_000, seconds=0.5)
    job.follower = job.begun(EpochStart(0, 0, 1_000))
    job.pages.begin_anew()
    await job.work()
    assert job.unread[:1_000] == job.expected(0)[1_000:2_000]


async def test_seconds_of_the_pace_are_told_ahead_over_the_end_of_the_epoch() -> None:
    job = Job()
    await job.work()
    for first in range(0, 16_000, 1000):
        await job.read(0, first, first + 1000, seconds=0.5)
    assert len(job.files) >= 16_000 + 9 * 2000
    assert job.files == (job.expected(0) + job.expected(1))[: len(job.files)]


async def test_pieces_are_told_once() -> None:
    job = Job()
    await job.work()
    for first in range(0, 10_000, 1000):
        await job.read(0, first, first + 1000, seconds=0.5)
    numbers = [(one.first, len(one.pieces) // 16) for one in job.told]
    assert [first for first, _ in numbers] == list(accumulate([count for _, count in numbers[:-1]], initial=0))


async def test_the_place_is_told_on_while_nothing_is_seen() -> None:
    job = Job()
    await job.work()
    for first in range(0, 10_000, 1000):
        await job.read(0, first, first + 1000, seconds=0.5)
    job.now += 0.5
    await job.work()
    last = job.told[-1]
    assert (round(last.seen, -2), round(last.at, -2), round(last.pace, -2)) == (10_000, 11_000, 2000)


async def test_readers_that_are_found_elsewhere_are_followed_there() -> None:
    job = Job()
    await job.work()
    for first in range(0, 10_000, 1000):
        await job.read(0, first, first + 1000, seconds=0.5)
    for first in range(3000, 3600, 100):  # the job was started again
        await job.read(0, first, first + 100, seconds=0.05)
    place = job.expected(0).index(job.files[0])
    assert 2500 <= place <= 3600


async def test_what_the_fetcher_did_not_take_is_told_again() -> None:
    job = Job()
    job.answer = lambda: Failed(5, "not open")
    await job.pages.work(job.follower, "pod")
    await job.work()
    job.answer = Done
    await job.work()
    assert job.files == job.expected(0)[:8192]


async def test_a_fetcher_that_is_gone_is_told_from_the_beginning() -> None:
    job = Job()
    await job.work()

    def gone() -> Reply:
        raise FetcherUnavailable("gone")

    job.answer = gone
    with pytest.raises(FetcherUnavailable):
        await job.read(0, 0, 1000, seconds=0.1)
    job.answer, before = Done, len(job.told)
    await job.work()
    assert job.told[before].first == 0


async def test_everything_is_taken_back_in_the_end_and_once() -> None:
    job = Job()
    await job.work()
    await job.pages.end()
    await job.pages.end()
    assert [one.ended for one in job.told] == [False, True]


async def test_readers_that_the_fetcher_saw_open_a_piece_are_there() -> None:
    job = Job()
    await job.work()
    for number in (400, 800, 1200):
        job.now += 0.1
        job.answer = partial(Passed, number)
        await job.work()
    job.now += 0.1
    await job.work()
    assert job.told[-1].seen == pytest.approx(1200, abs=1)
    assert job.told[-1].at == pytest.approx(1600, rel=0.1)


async def test_samples_that_are_older_than_what_the_fetcher_saw_move_nothing_back() -> None:
    job = Job()
    for number in range(0, 6000, 1000):
        job.answer = partial(Passed, number)
        job.now += 0.25
        await job.work()
    for first in (4000, 4100, 4200):
        await job.read(0, first, first + 100, seconds=0.01)
    assert job.told[-1].seen == pytest.approx(5000, abs=1)
    assert len([one for one in job.told if not one.first]) == 1
    assert job.follower.agreement == 100


async def test_readers_are_looked_for_while_there_is_nothing_to_tell_but_seldom_where_they_rest() -> None:
    job = Job()
    await job.work()
    told = len(job.told)
    job.now += 1.0
    await job.work()
    assert len(job.told) == told + 1
    job.now += 100.0
    await job.work()
    job.now += 1.0
    await job.work()
    assert len(job.told) == told + 2


async def test_readers_of_a_short_epoch_are_known_to_read_as_was_said_by_the_files_that_they_open() -> None:
    """Of an epoch of few batches as much may be out of order as there is, so that samples tell nothing."""
    job = Job(batch=400, loaders=4, samples=10_000)
    await job.work(alone=True)
    await job.read(0, 0, 100, seconds=0.1)
    assert (job.follower.state, job.told[-1].alone) == (OrderState.UNKNOWN, False)
    job.answer = partial(Passed, 2000)
    for _ in range(2):
        job.now += 0.1
        await job.work(alone=True)
    assert job.told[-1].alone


async def test_a_read_of_the_last_loader_says_little_of_the_others() -> None:
    job = Job(batch=400, loaders=4)
    await job.work()
    job.follower.saw([ReadSample(file) for file in job.expected(0)[:40]], 0.0)  # ten of each loader's first batch
    job.pages.saw(job.follower, job.now)
    await job.work()
    assert job.told[-1].seen <= 40


async def test_a_batch_comes_whole_where_readers_rest_between_their_batches() -> None:
    job = Job(batch=400, loaders=4)
    await job.work()
    in_turns = job.files
    for look in range(60):
        job.now += 0.25
        job.answer = partial(Passed, look // 8 * 1600)
        await job.work()
        if job.told[-1].first == 0:
            break
    samples = job.follower.order.epoch(0).samples
    first = samples.index(job.files[0] - FIRST)
    assert job.files != in_turns
    assert job.files[:800] == [FIRST + sample for sample in samples[first : first + 800]]


async def test_a_new_beginning_needs_no_order_of_the_epoch_before() -> None:
    job = Job(batch=400, loaders=4)
    await job.work()
    for epoch, last in ((0, FILES), (1, 2_000)):
        for first in range(0, last, 1_000):
            await job.read(epoch, first, first + 1_000, 0.5)
    job.answer = lambda: Failed(5, "not open")
    await job.work()
    job.answer = Done
    await job.work()
    assert job.files[:1_600] == job.expected(1)[:1_600]
