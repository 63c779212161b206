"""The fetcher receives the next pages from the position of the readers on, across the end of an epoch."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import pytest

from stoker_orders.following import OrderFollower, OrderState, ReadSample
from stoker_orders.job_order import JobOrder
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import AT_FIRST, EpochStart, SamplingPlan
from stoker_sidecar.agent.orders.epoch_orders import EpochOrders
from stoker_sidecar.agent.orders.pages_ahead import PagesAhead
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.wire.fetcher_hints import PageWindow
from stoker_sidecar.wire.fetcher_protocol import Done, Failed, ReaderPosition, Reply

FILES, FIRST = 20_000, 7


@dataclass
class Job:
    """A job of one rank with observed reads, and the messages to the fetcher."""

    pages: PagesAhead = field(init=False)
    follower: OrderFollower = field(init=False)
    told: list[PageWindow] = field(default_factory=list)
    now: float = 0.0
    answer: Callable[[], Reply] = Done
    batch: int = 16
    loaders: int = 0
    samples: int = FILES
    start: EpochStart = AT_FIRST
    _orders: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.follower = self.begun(self.start)
        self.pages = PagesAhead(self._tell, ("uid", "d" * 64), EpochOrders(NodePlugins()), lambda: self.now)

    def begun(self, start: EpochStart) -> OrderFollower:
        plan = SamplingPlan(
            SamplerName.TORCH_DISTRIBUTED, seed=3, epochs=3, batch=self.batch, loaders=self.loaders, start=start
        )
        return OrderFollower(JobOrder(plan, FileMap(range(FIRST, FIRST + self.samples)), (0,)))

    async def _tell(self, message: PageWindow) -> Reply:
        self.told.append(message)
        return self.answer()

    @property
    def files(self) -> list[int]:
        """The files sent since the last restart of the window."""
        begun = max(place for place, one in enumerate(self.told) if not one.first)
        return [file for one in self.told[begun:] for file, _, _ in struct.iter_unpack("<IIQ", one.pieces)]

    @property
    def unread(self) -> list[int]:
        """The sent files from the position of the readers on."""
        return self.files[int(self.told[-1].seen) :]

    def expected(self, epoch: int) -> list[int]:
        order = self.follower.order
        if (id(order), epoch) not in self._orders:
            self._orders[id(order), epoch] = [piece.file for piece in order.pieces(order.epoch(epoch), 0)]
        return self._orders[id(order), epoch]

    async def work(self, *, alone: bool = False) -> None:
        while (wanted := self.follower.wanted) is not None:
            self.follower.give(self.follower.order.epoch(wanted))
        while await self.pages.work(self.follower, "pod", alone=alone):
            pass

    async def read(self, epoch: int, first: int, last: int, seconds: float) -> None:
        """Observe reads that took ``seconds``, and send the next pages."""
        self.now += seconds
        self.follower.saw([ReadSample(file) for file in self.expected(epoch)[first:last]], 0.0)
        self.pages.saw(self.follower, self.now)
        await self.work()

    async def read_on(self, epoch: int, first: int, last: int, each: int) -> None:
        """Observe so many reads each half second."""
        for start in range(first, last, each):
            await self.read(epoch, start, start + each, seconds=0.5)


async def begun(**fields: Any) -> Job:
    """Return a job for which the first pieces were sent."""
    job = Job(**fields)
    await job.work()
    return job


async def test_the_first_pieces_are_sent_before_any_read() -> None:
    job = await begun()
    assert job.files == job.expected(0)[:8192]


@pytest.mark.parametrize("position", [0, 5_000, 19_900])
async def test_a_job_resumed_in_a_later_epoch_gets_the_pieces_from_there(position: int) -> None:
    job = await begun(loaders=4, start=EpochStart(1, 0, position))
    samples = [*job.follower.order.epoch(1).samples[position:], *job.follower.order.epoch(2).samples]
    first = {FIRST + sample for sample in samples[:64]}  # one batch per loader
    assert set(job.unread[:64]) == first
    assert len(job.unread) >= 8_000


async def test_a_job_resumed_with_other_ranks_is_followed_into_the_next_epoch() -> None:
    """The rest of the first epoch is shorter than the later epochs."""
    job = await begun(samples=8_000, start=EpochStart(1, 6_000, 0))
    await job.read_on(1, 0, 2_000, each=500)
    await job.read_on(2, 0, 1_500, each=500)
    assert job.follower.agreement == 100
    assert job.unread[:4_000] == job.expected(2)[1_500 - 1 : 5_500 - 1]


async def test_a_restarted_job_is_followed_from_its_start() -> None:
    job = await begun()
    await job.read_on(0, 0, 4_000, each=1_000)
    job.follower = job.begun(EpochStart(0, 0, 1_000))
    job.pages.begin_anew()
    await job.work()
    assert job.unread[:1_000] == job.expected(0)[1_000:2_000]


async def test_pieces_for_some_seconds_are_sent_across_the_end_of_the_epoch() -> None:
    job = await begun()
    await job.read_on(0, 0, 16_000, each=1000)
    assert len(job.files) >= 16_000 + 9 * 2000
    assert job.files == (job.expected(0) + job.expected(1))[: len(job.files)]


async def test_each_piece_is_sent_once() -> None:
    job = await begun()
    await job.read_on(0, 0, 10_000, each=1000)
    numbers = [(one.first, len(one.pieces) // 16) for one in job.told]
    assert [first for first, _ in numbers] == list(accumulate([count for _, count in numbers[:-1]], initial=0))


async def test_the_position_advances_without_observed_reads() -> None:
    job = await begun()
    await job.read_on(0, 0, 10_000, each=1000)
    job.now += 0.5
    await job.work()
    last = job.told[-1]
    assert (round(last.seen, -2), round(last.at, -2), round(last.pace, -2)) == (10_000, 11_000, 2000)


async def test_readers_that_jump_are_followed() -> None:
    job = await begun()
    await job.read_on(0, 0, 10_000, each=1000)
    for first in range(3000, 3600, 100):  # the job was restarted
        await job.read(0, first, first + 100, seconds=0.05)
    place = job.expected(0).index(job.files[0])
    assert 2500 <= place <= 3600


async def test_refused_pieces_are_sent_again() -> None:
    job = Job()
    job.answer = lambda: Failed(5, "not open")
    await job.pages.work(job.follower, "pod")
    await job.work()
    job.answer = Done
    await job.work()
    assert job.files == job.expected(0)[:8192]


async def test_a_new_fetcher_gets_the_window_from_its_start() -> None:
    job = await begun()

    def gone() -> Reply:
        raise FetcherUnavailable("gone")

    job.answer = gone
    with pytest.raises(FetcherUnavailable):
        await job.read(0, 0, 1000, seconds=0.1)
    job.answer, before = Done, len(job.told)
    await job.work()
    assert job.told[before].first == 0


async def test_the_end_is_sent_once() -> None:
    job = await begun()
    await job.pages.end()
    await job.pages.end()
    assert [one.ended for one in job.told] == [False, True]


async def test_the_fetcher_reports_the_position_of_readers() -> None:
    job = await begun()
    for number in (400, 800, 1200):
        job.now += 0.1
        job.answer = partial(ReaderPosition, number)
        await job.work()
    job.now += 0.1
    await job.work()
    assert job.told[-1].seen == pytest.approx(1200, abs=1)
    assert job.told[-1].at == pytest.approx(1600, rel=0.1)


async def test_samples_older_than_the_report_of_the_fetcher_move_nothing_back() -> None:
    job = Job()
    for number in range(0, 6000, 1000):
        job.answer = partial(ReaderPosition, number)
        job.now += 0.25
        await job.work()
    for first in (4000, 4100, 4200):
        await job.read(0, first, first + 100, seconds=0.01)
    assert job.told[-1].seen == pytest.approx(5000, abs=1)
    assert len([one for one in job.told if not one.first]) == 1
    assert job.follower.agreement == 100


async def test_the_position_is_queried_between_pieces_but_rarely_at_rest() -> None:
    job = await begun()
    told = len(job.told)
    job.now += 1.0
    await job.work()
    assert len(job.told) == told + 1
    job.now += 100.0
    await job.work()
    job.now += 1.0
    await job.work()
    assert len(job.told) == told + 2


async def test_opened_files_confirm_the_order_of_a_short_epoch() -> None:
    """An epoch of few batches can be out of order in full, so that samples prove nothing."""
    job = Job(batch=400, loaders=4, samples=10_000)
    await job.work(alone=True)
    await job.read(0, 0, 100, seconds=0.1)
    assert (job.follower.state, job.told[-1].alone) == (OrderState.UNKNOWN, False)
    job.answer = partial(ReaderPosition, 2000)
    for _ in range(2):
        job.now += 0.1
        await job.work(alone=True)
    assert job.told[-1].alone


async def test_a_read_of_the_last_loader_moves_the_position_little() -> None:
    job = await begun(batch=400, loaders=4)
    job.follower.saw([ReadSample(file) for file in job.expected(0)[:40]], 0.0)  # ten of each loader's first batch
    job.pages.saw(job.follower, job.now)
    await job.work()
    assert job.told[-1].seen <= 40


async def test_a_batch_comes_whole_where_readers_rest_between_their_batches() -> None:
    job = await begun(batch=400, loaders=4)
    in_turns = job.files
    for look in range(60):
        job.now += 0.25
        job.answer = partial(ReaderPosition, look // 8 * 1600)
        await job.work()
        if job.told[-1].first == 0:
            break
    samples = job.follower.order.epoch(0).samples
    first = samples.index(job.files[0] - FIRST)
    assert job.files != in_turns
    assert job.files[:800] == [FIRST + sample for sample in samples[first : first + 800]]


async def test_a_restarted_window_does_not_need_the_previous_epoch() -> None:
    job = await begun(batch=400, loaders=4)
    for epoch, last in ((0, FILES), (1, 2_000)):
        await job.read_on(epoch, 0, last, each=1_000)
    job.answer = lambda: Failed(5, "not open")
    await job.work()
    job.answer = Done
    await job.work()
    assert job.files[:1_600] == job.expected(1)[:1_600]
