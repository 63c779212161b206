"""The node's plug-ins: who is asked when, who is left out, and what counts then."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain, count, repeat
from typing import Any

import pytest

from stoker_plugins.asking import FileHead
from stoker_sidecar.agent.node_plugins import NodePlugins
from stoker_sidecar.agent.plugin_link import AskedPlugins, PluginLink
from stoker_sidecar.agent.plugin_metrics import PluginCollector
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from tests.support.waiting import eventually

RULE = {"id": "shards", "actions": [{"type": "prefetch"}]}
Says = Callable[[str, int], ToldAnswer]


def said(name: str, files: int, **other: Any) -> ToldAnswer:
    answer = {"name": name, "confidences": [0.0] * files, "kinds": [""] * files, "hints": {}, "rules": []}
    return ToldAnswer(name, f"{name} 1", json.dumps(answer | {"templates": []} | other).encode())


class FakeLink(PluginLink):
    """Answers by what ``says`` holds for a plug-in, and remembers who was asked."""

    def __init__(self, says: dict[str, Says]) -> None:
        self.says = says
        self.asked: list[tuple[str, ...]] = []
        self.trouble = ""
        self.begun = True

    async def ask(self, names: Sequence[str], files: Sequence[FileHead]) -> AskedPlugins:
        self.asked.append(tuple(names))
        told = [self.says[name](name, len(files)) for name in names if name in self.says]
        return AskedPlugins(tuple(told), self.trouble, self.begun)


def refuse(name: str, files: int) -> ToldAnswer:
    return ToldAnswer(name, "", refused="it did not answer within 5 s")


@asynccontextmanager
async def running(plugins: NodePlugins) -> AsyncIterator[None]:
    task = asyncio.create_task(plugins.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_built_in_ones_are_not_asked_before_there_is_a_question() -> None:
    link = FakeLink({"pytorch": said})
    plugins = NodePlugins(["pytorch"], link, Changes())
    async with running(plugins):
        await plugins.ask([FileHead("a", b"")])
    assert link.asked == [("pytorch",)]


async def test_the_rules_of_others_are_asked_for_at_once_and_count() -> None:
    changes = Changes()
    token = changes.token()
    plugins = NodePlugins(["pytorch", "odd"], FakeLink({"odd": lambda *one: said(*one, rules=[RULE])}), changes)
    async with running(plugins):
        await eventually(lambda: bool(plugins.documents()), 30)
    assert token.is_set()
    (row,) = plugins.rows()
    assert (row.name, row.package, row.rules, row.message) == ("odd", "odd 1", 1, "")


@pytest.mark.expected_logs("left out")
async def test_one_that_is_left_out_is_not_asked_with_the_others_and_takes_its_rules_with_it() -> None:
    link = FakeLink({"odd": lambda *one: said(*one, rules=[RULE]), "pytorch": said})
    plugins = NodePlugins(["odd", "pytorch"], link, Changes())
    await plugins.ask([])
    link.says["odd"] = refuse
    assert [one.name for one in await plugins.ask([FileHead("a", b"")])] == ["pytorch"]
    assert plugins.documents() == ()
    await plugins.ask([FileHead("b", b"")])
    assert link.asked[-1] == ("pytorch",)


@pytest.mark.expected_logs("left out")
async def test_one_that_is_left_out_comes_back_when_it_answers_later() -> None:
    minutes = count(0.0, 100.0)
    answers = chain([refuse], repeat(said))

    def answer(name: str, files: int) -> ToldAnswer:
        return next(answers)(name, files)

    link = FakeLink({"odd": answer})
    plugins = NodePlugins(["odd"], link, Changes(), clock=lambda: next(minutes))
    async with running(plugins):
        await eventually(lambda: bool(plugins.rows()) and plugins.rows()[0].message == "", 30)
    assert len(link.asked) == 2


@pytest.mark.expected_logs("framework plug-ins|left out")
async def test_who_ends_the_asker_is_left_out_and_who_comes_after_it_is_not() -> None:
    link = FakeLink({"pytorch": said})
    link.trouble = "the asker ended early"
    plugins = NodePlugins(["pytorch", "odd", "jax"], link, Changes())
    await plugins.ask([])
    assert {row.name: row.message for row in plugins.rows()} == {
        "pytorch": "",
        "odd": "the asker ended early while it was asked",
    }


@pytest.mark.expected_logs("framework plug-ins")
async def test_where_there_is_no_asker_nobody_is_left_out() -> None:
    link = FakeLink({})
    link.trouble, link.begun = "the asker's answer cannot be had: gone", False
    plugins = NodePlugins(["odd"], link, Changes())
    assert await plugins.ask([]) == []
    assert plugins.rows() == ()


@pytest.mark.expected_logs("left out")
async def test_metrics_count_by_name_and_outcome() -> None:
    plugins = NodePlugins(["pytorch", "odd"], FakeLink({"pytorch": said, "odd": refuse}), Changes())
    await plugins.ask([])
    await plugins.ask([])
    asked, out = PluginCollector(plugins).collect()
    assert {tuple(one.labels.values()): one.value for one in asked.samples if one.name.endswith("_total")} == {
        ("pytorch", "answered"): 2,
        ("odd", "refused"): 1,
    }
    assert {one.labels["plugin"]: one.value for one in out.samples} == {"pytorch": 0, "odd": 1}
