"""The node's plug-ins: when each is asked, which are skipped, and the combined result."""

import json
from collections.abc import Callable, Sequence
from itertools import chain, count, repeat
from typing import Any

import pytest

from stoker_plugins.framework_question import FileHead, FrameworkQuestion
from stoker_plugins.questions import PluginQuestion
from stoker_sidecar.agent.http.observation_metrics import PluginCollector
from stoker_sidecar.agent.questions.plugins.node_plugins import AskedPlugins, NodePlugins, PluginLink
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from tests.support.tasks import background
from tests.support.waiting import eventually

RULE = {"id": "shards", "actions": [{"type": "prefetch"}]}
Says = Callable[[str, int], ToldAnswer]


def said(name: str, files: int, **other: Any) -> ToldAnswer:
    answer = {"name": name, "confidences": [0.0] * files, "kinds": [""] * files, "hints": {}, "rules": []}
    return ToldAnswer(name, f"{name} 1", json.dumps(answer | {"templates": []} | other).encode())


class FakeLink(PluginLink):
    """Answers for the plug-ins in ``says``, and records the requests."""

    def __init__(self, says: dict[str, Says]) -> None:
        self.says = says
        self.asked: list[tuple[str, ...]] = []
        self.trouble = ""

    async def ask(self, names: Sequence[str], question: PluginQuestion[object]) -> AskedPlugins:
        assert isinstance(question, FrameworkQuestion)
        self.asked.append(tuple(names))
        told = [self.says[name](name, len(question.files)) for name in names if name in self.says]
        return AskedPlugins(tuple(told), self.trouble)


def refuse(name: str, files: int) -> ToldAnswer:
    return ToldAnswer(name, "", refused="it did not answer within 5 s")


async def test_built_in_ones_are_not_asked_before_there_is_a_question() -> None:
    link = FakeLink({"pytorch": said})
    plugins = NodePlugins(link, ["pytorch"])
    async with background(plugins.run()):
        await plugins.ask([FileHead("a", b"")])
    assert link.asked == [("pytorch",)]


async def test_the_rules_of_others_are_asked_for_at_once_and_count() -> None:
    changes = Changes()
    token = changes.token()
    plugins = NodePlugins(FakeLink({"odd": lambda *one: said(*one, rules=[RULE])}), ["pytorch", "odd"], changes=changes)
    async with background(plugins.run()):
        await eventually(lambda: bool(plugins.documents()), 30)
    assert token.is_set()
    (row,) = plugins.rows()
    assert (row.name, row.package, row.rules, row.message) == ("odd", "odd 1", 1, "")


@pytest.mark.expected_logs("left out")
async def test_one_that_is_left_out_is_not_asked_with_the_others_and_takes_its_rules_with_it() -> None:
    link = FakeLink({"odd": lambda *one: said(*one, rules=[RULE]), "pytorch": said})
    plugins = NodePlugins(link, ["odd", "pytorch"])
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
    plugins = NodePlugins(link, ["odd"], clock=lambda: next(minutes))
    async with background(plugins.run()):
        await eventually(lambda: bool(plugins.rows()) and plugins.rows()[0].message == "", 30)
    assert len(link.asked) == 2


@pytest.mark.expected_logs("framework plug-ins")
async def test_without_an_asker_no_plug_in_is_left_out() -> None:
    link = FakeLink({})
    link.trouble = "the asker's answer cannot be read: gone"
    plugins = NodePlugins(link, ["odd"])
    assert await plugins.ask([]) == []
    assert plugins.rows() == ()


@pytest.mark.expected_logs("left out")
async def test_metrics_count_by_name_and_outcome() -> None:
    plugins = NodePlugins(FakeLink({"pytorch": said, "odd": refuse}), ["pytorch", "odd"])
    await plugins.ask([])
    await plugins.ask([])
    asked, _, out = PluginCollector(plugins).collect()
    assert {tuple(one.labels.values()): one.value for one in asked.samples if one.name.endswith("_total")} == {
        ("framework", "pytorch", "answered"): 2,
        ("framework", "odd", "refused"): 1,
    }
    assert {one.labels["plugin"]: one.value for one in out.samples} == {"pytorch": 0, "odd": 1}
