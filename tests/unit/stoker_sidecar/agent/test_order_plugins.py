"""What a node says of its order plug-ins: which are there, and what is wrong with one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from stoker_api.nodecache import NodeOrderPlugin
from stoker_orders.predictors.interface import OrderQuestion
from stoker_sidecar.agent.order_plugins import OrderPlugins
from stoker_sidecar.agent.plugin_metrics import OrderPluginCollector
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import PluginRefusedError
from tests.support.told_orders import AskedNothing, TorchOrders
from tests.support.waiting import eventually

ASKED = OrderQuestion(100, seed=3)
ABSENT = "it is not installed in this image"


@asynccontextmanager
async def running(plugins: OrderPlugins) -> AsyncIterator[None]:
    task = asyncio.create_task(plugins.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def asked(plugins: OrderPlugins, name: str = "mine") -> None:
    with suppress(PluginRefusedError):
        await plugins.order(name, ASKED)


@pytest.mark.expected_logs("cannot be asked")
async def test_those_that_the_chart_names_are_looked_for_before_a_job_needs_one() -> None:
    link, changes = TorchOrders(), Changes()
    link.missing = {"absent": ABSENT}
    token = changes.token()
    plugins = OrderPlugins(["mine", "absent"], link, changes)
    assert plugins.rows() == ()
    async with running(plugins):
        await eventually(lambda: len(plugins.rows()) == 2)
    assert plugins.rows() == (
        NodeOrderPlugin(name="mine", package="stoker-mine 1"),
        NodeOrderPlugin(name="absent", message=ABSENT),
    )
    assert token.is_set()
    assert link.asked == []


@pytest.mark.expected_logs("cannot be asked")
async def test_one_that_gives_itself_another_name_cannot_be_asked() -> None:
    class Renamed(TorchOrders):
        async def look(self, name: str) -> ToldAnswer:
            return await super().look("other")

    plugins = OrderPlugins(["mine"], Renamed())
    async with running(plugins):
        await eventually(lambda: len(plugins.rows()) == 1)
    assert plugins.rows()[0].message == "it calls itself other, and its entry point mine"


@pytest.mark.expected_logs("cannot be asked")
async def test_one_that_is_not_there_is_looked_for_again_after_a_minute() -> None:
    link, now = TorchOrders(), [0.0]
    link.missing = {"mine": ABSENT}
    plugins = OrderPlugins(["mine"], link, clock=lambda: now[0])
    async with running(plugins):
        await eventually(lambda: len(plugins.rows()) == 1)
    link.missing = {}
    now[0] = 60.0
    async with running(plugins):
        await eventually(lambda: plugins.rows()[0].message == "")


async def test_why_it_told_no_order_is_shown_until_it_tells_one() -> None:
    link = AskedNothing("it failed: KeyError")
    plugins = OrderPlugins(["mine"], link)
    await asked(plugins)
    assert plugins.rows()[0].message == "it told no order when it was asked last: it failed: KeyError"
    assert wrong(plugins) == {"mine": 1}
    plugins = OrderPlugins(["mine"], TorchOrders())
    await asked(plugins)
    assert plugins.rows() == (NodeOrderPlugin(name="mine"),)
    assert wrong(plugins) == {"mine": 0}


async def test_a_message_changes_only_when_something_else_is_wrong() -> None:
    changes = Changes()
    plugins = OrderPlugins(["mine"], AskedNothing("it failed: KeyError"), changes)
    await asked(plugins)
    token = changes.token()
    await asked(plugins)
    assert not token.is_set()


def wrong(plugins: OrderPlugins) -> dict[str, float]:
    families = {family.name: family for family in OrderPluginCollector(plugins).collect()}
    return {sample.labels["plugin"]: sample.value for sample in families["stoker_order_plugin_wrong"].samples}
