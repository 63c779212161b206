"""Namespaces take turns at readers."""

import asyncio

from stoker_sidecar.agent.questions.reading.version_reader import ReadTurns


class Reads:
    """Reads that last until released. ``order``: the namespaces in order of their start."""

    def __init__(self, at_once: int) -> None:
        self.turns = ReadTurns(at_once)
        self.order: list[str] = []
        self.done = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def _read(self, namespace: str) -> None:
        async with self.turns.turn(namespace):
            self.order.append(namespace)
            await self.done.wait()
            await asyncio.sleep(0)

    async def begin(self, *namespaces: str) -> None:
        self.tasks += [asyncio.create_task(self._read(namespace)) for namespace in namespaces]
        for _ in range(5):
            await asyncio.sleep(0)

    async def finish(self) -> None:
        self.done.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_a_namespace_with_many_questions_holds_one_reader() -> None:
    reads = Reads(at_once=2)
    await reads.begin(*["bombs"] * 10, "canary")
    assert reads.order == ["bombs", "canary"]
    await reads.finish()


async def test_a_namespace_that_had_no_turn_comes_before_one_that_had() -> None:
    reads = Reads(at_once=1)
    await reads.begin("bombs", "bombs", "bombs", "canary")
    await reads.finish()
    assert reads.order == ["bombs", "canary", "bombs", "bombs"]


async def test_a_question_that_is_given_up_takes_no_turn_and_keeps_none() -> None:
    reads = Reads(at_once=1)
    await reads.begin("a", "b", "c")
    for task in reads.tasks[:2]:
        task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert reads.order == ["a", "c"]
    await reads.finish()
