"""How the agent handles an asker process that ends early or sends too much."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.framework_question import FrameworkQuestion
from stoker_plugins.order_questions import EpochQuestion, LoadQuestion
from stoker_plugins.questions import PluginQuestion
from stoker_sidecar.agent.questions.plugins.node_plugins import AskedPlugins, PluginLink
from stoker_sidecar.wire.plugins_protocol import ToldAnswer, decode_question, encode_parts, encode_told

ASKED = FrameworkQuestion()
Sends = Callable[[list[str]], Iterable[bytes]]


async def asked(folder: Path, sends: Sends, *names: str, question: PluginQuestion[object] = ASKED) -> AskedPlugins:
    """Ask an asker process that sends these lines."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.writelines(sends(decode_question(await reader.readline())[0]))
        writer.close()

    async with await asyncio.start_unix_server(serve, folder / "a.sock"):
        return await PluginLink(folder / "a.sock").ask(names, question)


async def test_an_answer_of_several_parts_comes_whole(tmp_path: Path) -> None:
    order = EpochQuestion(OrderQuestion(100_000))
    found = await asked(
        tmp_path, lambda names: encode_parts(ToldAnswer("a", "a 1", b"x" * 300_000)), "a", question=order
    )
    assert [(one.name, len(one.said)) for one in found.told] == [("a", 300_000)]
    assert found.trouble == ""


async def test_only_the_plug_in_that_ends_the_asker_is_refused(tmp_path: Path) -> None:
    found = await asked(tmp_path, lambda names: encode_parts(ToldAnswer("a", "", b"x")), "a", "b", "c")
    assert [(one.name, one.refused) for one in found.told] == [
        ("a", ""),
        ("b", "the asker ended early while it was asked"),
    ]


async def test_an_answer_beyond_the_bound_of_its_question_is_refused(tmp_path: Path) -> None:
    endless = [encode_told(ToldAnswer("a", "", b"x" * 3000))] * 3
    found = await asked(tmp_path, lambda names: endless, "a", question=LoadQuestion())
    assert "larger than 4096 bytes" in found.told[0].refused


async def test_without_an_asker_no_plug_in_is_refused(tmp_path: Path) -> None:
    found = await PluginLink(tmp_path / "none.sock").ask(["a"], LoadQuestion())
    assert found.told == ()
    assert found.trouble.startswith("the asker's answer cannot be read")
