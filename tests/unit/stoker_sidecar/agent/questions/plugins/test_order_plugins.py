"""The status of a node's order plug-ins: available names and errors."""

from contextlib import suppress

import pytest

from stoker_api.node_caches.nodecache_status import NodeOrderPlugin
from stoker_orders.predictors.interface import OrderQuestion
from stoker_sidecar.agent.http.observation_metrics import PluginCollector
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.frameworks.answers import PluginRefusedError
from tests.support.tasks import background
from tests.support.told_orders import AskedNothing, TorchOrders, mine
from tests.support.waiting import eventually

ASKED = OrderQuestion(100, seed=3)
ABSENT = "it is not installed in this image"


async def asked(plugins: NodePlugins, name: str = "mine") -> None:
    with suppress(PluginRefusedError):
        await plugins.order(name, ASKED)


@pytest.mark.expected_logs("is left out")
async def test_those_that_the_chart_names_are_looked_for_before_a_job_needs_one() -> None:
    link, changes = TorchOrders(), Changes()
    link.missing = {"absent": ABSENT}
    token = changes.token()
    plugins = NodePlugins(link, orders=["mine", "absent"], changes=changes)
    assert plugins.order_rows() == ()
    async with background(plugins.run()):
        await eventually(lambda: len(plugins.order_rows()) == 2)
    assert plugins.order_rows() == (
        NodeOrderPlugin(name="mine", package="stoker-mine 1"),
        NodeOrderPlugin(name="absent", message=ABSENT),
    )
    assert token.is_set()
    assert link.asked == []


@pytest.mark.expected_logs("is left out")
async def test_one_that_gives_itself_another_name_cannot_be_asked() -> None:
    class Renamed(TorchOrders):
        def load(self, name: str) -> bytes:
            return super().load("other")

    plugins = mine(Renamed())
    async with background(plugins.run()):
        await eventually(lambda: len(plugins.order_rows()) == 1)
    assert plugins.order_rows()[0].message == "it calls itself other, and its entry point mine"


@pytest.mark.expected_logs("is left out")
async def test_one_that_is_not_there_is_looked_for_again_after_a_minute() -> None:
    link, now = TorchOrders(), [0.0]
    link.missing = {"mine": ABSENT}
    plugins = NodePlugins(link, orders=["mine"], clock=lambda: now[0])
    async with background(plugins.run()):
        await eventually(lambda: len(plugins.order_rows()) == 1)
    link.missing = {}
    now[0] = 60.0
    async with background(plugins.run()):
        await eventually(lambda: plugins.order_rows()[0].message == "")


async def test_why_it_told_no_order_is_shown_until_it_tells_one() -> None:
    link = AskedNothing("it failed: KeyError")
    plugins = mine(link)
    await asked(plugins)
    assert plugins.order_rows()[0].message == "it told no order when it was asked last: it failed: KeyError"
    assert wrong(plugins) == {"mine": 1}
    plugins = mine(TorchOrders())
    await asked(plugins)
    assert plugins.order_rows() == (NodeOrderPlugin(name="mine", package="stoker-mine 1"),)
    assert wrong(plugins) == {"mine": 0}


async def test_a_message_changes_only_when_something_else_is_wrong() -> None:
    changes = Changes()
    plugins = NodePlugins(AskedNothing("it failed: KeyError"), orders=["mine"], changes=changes)
    await asked(plugins)
    token = changes.token()
    await asked(plugins)
    assert not token.is_set()


def wrong(plugins: NodePlugins) -> dict[str, float]:
    families = {family.name: family for family in PluginCollector(plugins).collect()}
    return {sample.labels["plugin"]: sample.value for sample in families["stoker_plugin_left_out"].samples}
