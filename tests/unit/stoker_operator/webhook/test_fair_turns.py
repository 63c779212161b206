"""Turns by namespace."""

import asyncio

import pytest

from stoker_operator.webhook.server import FairTurns, namespace_in
from tests.support.cases import cases


async def order_of(turns: FairTurns, asked: list[str]) -> list[str]:
    """Return the order of granted turns for simultaneous requests in this order."""
    granted = list[str]()

    async def one(namespace: str) -> None:
        async with turns.one(namespace):
            granted.append(namespace)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for namespace in asked:
            group.create_task(one(namespace))
    return granted


async def test_a_namespace_waits_for_one_turn_of_each_other_however_many_those_want() -> None:
    granted = await order_of(FairTurns(2), ["evil"] * 1000 + ["victim"])
    assert granted.index("victim") <= 4


async def test_turns_of_namespaces_alternate() -> None:
    assert await order_of(FairTurns(1), ["a", "a", "a", "b", "b"]) == ["a", "a", "b", "a", "b"]


async def test_a_turn_that_is_given_up_while_waiting_is_not_lost() -> None:
    turns = FairTurns(1)
    async with turns.one("a"):
        waiting = asyncio.create_task(order_of(turns, ["b"]))
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await order_of(turns, ["a", "b"]) == ["a", "b"]


@cases(
    "head, namespace",
    (b'{"kind":"AdmissionReview","request":{"uid":"1","name":"x","namespace":"vision","object":{', "vision"),
    (b'{"request": {"uid": "1", "namespace": "vision"', "vision"),
    (rb'{"request":{"uid":"1","name":"\"namespace\":\"other\"","namespace":"vision"', "vision"),
    (b'{"request":{"uid":"1","name":"' + b"x" * 100, ""),
)
def test_the_namespace_is_read_from_the_first_bytes(head: bytes, namespace: str) -> None:
    assert namespace_in(head) == namespace
