"""Orders of plug-ins arrive without blocking. A plug-in without an answer is asked again at long intervals."""

import asyncio

import pytest

from stoker_orders.job_order import EpochOrder, JobOrder
from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import PluginSampler
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import EpochStart, SamplingPlan
from stoker_plugins.discovery import PluginKind
from stoker_sidecar.agent.http.observation_metrics import PluginCollector
from stoker_sidecar.agent.orders.epoch_orders import EpochOrders
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins, PluginKey
from tests.support.told_orders import AskedNothing, TorchOrders, mine
from tests.support.waiting import eventually


def job(**said: object) -> JobOrder:
    plan = SamplingPlan(PluginSampler("mine"), seed=3, epochs=9, **said)  # type: ignore[arg-type]
    return JobOrder(plan, FileMap(range(1, 101)), (0,))


async def had(epochs: EpochOrders, order: JobOrder, number: int) -> EpochOrder:
    """Return an epoch's order once it is available."""
    for _ in range(10_000):
        epoch = await epochs.epoch(order, number)
        if epoch is not None:
            return epoch
        await asyncio.sleep(0.001)
    raise AssertionError("it never came")


async def settled(epochs: EpochOrders, order: JobOrder, times: int = 20) -> None:
    """Request an order many times. It never arrives."""
    for _ in range(times):
        assert await epochs.epoch(order, 0) is None
        await asyncio.sleep(0)


async def test_an_order_is_asked_for_once_for_all_who_want_it() -> None:
    link = TorchOrders()
    epochs = EpochOrders(mine(link))
    first = await had(epochs, job(), 0)
    assert await epochs.epoch(job(), 0) is first
    assert len(link.asked) == 1
    assert sorted(first.samples) == list(range(100))


async def test_an_epoch_that_is_begun_in_its_middle_is_followed_from_there() -> None:
    epochs = EpochOrders(mine(TorchOrders()))
    whole = await had(epochs, job(), 0)
    rest = await had(EpochOrders(mine(TorchOrders())), job(start=EpochStart(0, base=30)), 0)
    assert rest.samples == whole.samples[30:]


async def test_without_reseeding_the_same_epoch_is_asked_for() -> None:
    link = TorchOrders()
    epochs = EpochOrders(mine(link))
    for number in (0, 4):
        await had(epochs, job(reseeds=False), number)
    assert [one.epoch for one in link.asked] == [0, 0]


async def test_nobody_waits_for_a_plug_in_that_hangs() -> None:
    link = AskedNothing()
    epochs = EpochOrders(mine(link))
    async with asyncio.timeout(10):
        await settled(epochs, job())
    assert link.times == 1
    await epochs.end()


@pytest.mark.expected_logs("is left out")
async def test_one_that_fails_is_asked_again_after_a_minute_and_after_ten_and_then_no_more() -> None:
    link, now = AskedNothing("it failed: KeyError"), [0.0]
    epochs = EpochOrders(mine(link), clock=lambda: now[0])
    asked = []
    for moment in (0.0, 59.0, 61.0, 600.0, 662.0, 10_000.0):
        now[0] = moment
        await settled(epochs, job())
        asked.append(link.times)
    assert asked == [1, 1, 2, 2, 3, 3]
    assert epochs.refused.endswith("KeyError; it is not asked again for this job on this node")


@pytest.mark.expected_logs("is left out")
async def test_what_one_job_is_refused_another_one_is_told() -> None:
    class Choosy(TorchOrders):
        async def order(self, name: str, question: OrderQuestion) -> bytes:
            said = await super().order(name, question)
            return b"{}" if self.asked[-1].parameters else said

    plugins = mine(Choosy())
    wrong, right = EpochOrders(plugins), EpochOrders(plugins)
    await settled(wrong, job(parameters=(("deal", "x"),)))
    await eventually(lambda: plugins.counts[PluginKey(PluginKind.ORDER, "mine"), "refused"] == 1)
    await had(right, job(), 0)
    assert right.refused == ""
    rows = [sample.value for family in PluginCollector(plugins).collect() for sample in family.samples]
    assert rows[:2] == [1, 1]


@pytest.mark.expected_logs("is left out")
async def test_one_that_the_chart_does_not_name_is_not_asked() -> None:
    link = TorchOrders()
    epochs = EpochOrders(NodePlugins(link))
    await settled(epochs, job())
    assert "name it in sidecar.orderPlugins" in epochs.refused
    assert link.asked == []
