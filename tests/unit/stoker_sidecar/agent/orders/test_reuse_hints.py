"""The fetcher learns which files return next epoch if a node reads a part, and nothing if it reads everything."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker_orders.following import OrderFollower, OrderState, ReadSample
from stoker_orders.job_order import JobOrder
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import SamplingPlan
from stoker_sidecar.agent.orders.epoch_orders import EpochOrders
from stoker_sidecar.agent.orders.reuse_hints import ReuseHintSender
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.wire.fetcher_hints import ReuseHints
from stoker_sidecar.wire.fetcher_protocol import Done, Failed, Reply

FILES, FIRST, RANKS = 8_000, 7, 4


@dataclass
class Job:
    """A job with some ranks on this node, and the messages to the fetcher."""

    here: tuple[int, ...] = (1,)
    epochs: int = 3
    reseeds: bool | None = None
    told: list[ReuseHints] = field(default_factory=list)
    answer: Callable[[], Reply] = Done
    teller: ReuseHintSender = field(init=False)
    follower: OrderFollower = field(init=False)

    def __post_init__(self) -> None:
        plan = SamplingPlan(
            SamplerName.TORCH_DISTRIBUTED, seed=3, epochs=self.epochs, ranks=RANKS, reseeds=self.reseeds
        )
        order = JobOrder(plan, FileMap(range(FIRST, FIRST + FILES)), self.here)
        self.follower = OrderFollower(order)
        self.follower.give(order.epoch(0))
        self.teller = ReuseHintSender(self._tell, ("uid", "d" * 64), EpochOrders(NodePlugins()))

    async def _tell(self, message: ReuseHints) -> Reply:
        self.told.append(message)
        return self.answer()

    def part(self, epoch: int) -> list[int]:
        order = self.follower.order
        return [piece.file for piece in order.pieces(order.epoch(epoch), 0)]

    async def read(self, first: int, last: int) -> None:
        """Observe reads of the first epoch, and send hints."""
        self.follower.saw([ReadSample(file) for file in self.part(0)[first:last]])
        await self.teller.work(self.follower, "pod")


def marked(message: ReuseHints, mark: int) -> set[int]:
    return {ino for ino, one in enumerate(zlib.decompress(message.files)) if one & mark}


async def test_what_is_left_of_this_epoch_and_all_of_the_next_is_told() -> None:
    job = Job()
    await job.read(0, 100)
    (message,) = job.told
    now, following = job.part(0), job.part(1)
    assert set(now[100:]) <= marked(message, 1) <= set(now)
    assert marked(message, 2) == set(following)


async def test_it_is_told_again_when_a_quarter_has_been_read() -> None:
    job = Job()
    for first in range(0, 2000, 100):
        await job.read(first, first + 100)
    assert len(job.told) == 4
    assert not set(job.part(0)[:1400]) & marked(job.told[-1], 1)
    assert len({frozenset(marked(message, 2)) for message in job.told}) == 1


@pytest.mark.parametrize(
    "said",
    [{"here": (0, 1, 2, 3)}, {"epochs": 1}, {"reseeds": False}],
    ids=["all ranks are here", "there is no other epoch", "each epoch is alike"],
)
async def test_where_nothing_would_be_gained_nothing_is_told(said: dict[str, Any]) -> None:
    job = Job(**said)
    await job.read(0, 100)
    assert job.follower.state is OrderState.KNOWN
    assert job.told == []


async def test_an_order_that_is_not_known_to_be_right_is_not_told() -> None:
    job = Job()
    await job.read(0, 10)
    assert job.told == []


async def test_a_version_that_is_not_open_yet_is_told_again() -> None:
    job = Job(answer=lambda: Failed(11, "not open"))
    await job.read(0, 100)
    await job.teller.work(job.follower, "pod")
    assert len(job.told) == 2


async def test_at_the_end_it_is_taken_back_once() -> None:
    job = Job()
    await job.read(0, 100)
    for _ in range(2):
        await job.teller.end()
    assert [bool(message.files) for message in job.told] == [True, False]
