"""Asks an order plug-in for an epoch's order; what it says is hostile input, and checked at this door."""

import json
import sys
from array import array
from collections.abc import Mapping
from typing import Any

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.asking import Question, StartPlugin, answer_of, start_program
from stoker_plugins.discovery import InstalledPlugin
from stoker_plugins.order_child import LOAD, ORDER
from stoker_tuning.frameworks.answers import PluginRefusedError, plain_words

ORDER_SECONDS = 30.0
_MOST_HEAD = 4096
# What has a plug-in loaded and not asked, and the longest answer to that.
TO_LOAD: Question = {LOAD: True}
MOST_LOADED = _MOST_HEAD


def most_bytes(question: OrderQuestion) -> int:
    """Return the length of the longest answer that is read."""
    return _MOST_HEAD + 4 * (question.most + 1)


def asked_for(question: OrderQuestion) -> Question:
    """Return the question as the process of a plug-in reads it."""
    return {ORDER: question.mapping()}


def order_of(
    plugin: InstalledPlugin,
    question: OrderQuestion,
    seconds: float = ORDER_SECONDS,
    start: StartPlugin = start_program,
) -> "array[int]":
    """Return the order that a plug-in tells. Blocks for ``seconds``, and to check it, at most.

    Raises PluginRefusedError with a sentence: it tells none, or what cannot be one.
    """
    said = answer_of(plugin, asked_for(question), seconds, start, most_bytes(question))
    return parse_order(plugin.name, said, question)


def parse_order(name: str, said: bytes, question: OrderQuestion) -> "array[int]":
    """Read the answer of the plug-in of that name. Blocks: a tenth of a second for a million samples.

    Raises PluginRefusedError.
    """
    head, _, numbers = said.partition(b"\n")
    count = _count(name, head)
    if count > question.most:
        raise PluginRefusedError(f"its order has more than the {question.most} samples that this epoch may have")
    if len(numbers) != 4 * count:
        raise PluginRefusedError("its order does not end")
    order = array("I", numbers)
    if sys.byteorder == "big":
        order.byteswap()
    check_order(order, question)
    return order


def check_loaded(name: str, said: bytes) -> None:
    """Read the answer of a plug-in that was loaded and not asked. Raises PluginRefusedError: it cannot be used."""
    _head(name, said)


def _count(name: str, head: bytes) -> int:
    """Return how many samples an answer begins to tell. Raises PluginRefusedError."""
    count = _head(name, head).get("samples")
    if type(count) is not int or count < 0:
        raise PluginRefusedError("it gave no answer that can be read")
    return count


def _head(name: str, head: bytes) -> Mapping[str, Any]:
    """Return the first line of an answer of the plug-in of that name. Raises PluginRefusedError."""
    try:
        found = json.loads(head[:_MOST_HEAD])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PluginRefusedError("it gave no answer that can be read")
    if "failed" in found:
        raise PluginRefusedError(f"it failed: {plain_words(found['failed'])}")
    if found.get("name") != name:
        raise PluginRefusedError(f"it calls itself {plain_words(found.get('name'))}, and its entry point {name}")
    return found


def check_order(order: "array[int]", question: OrderQuestion) -> None:
    """Refuse an order that cannot be one of this epoch. Raises PluginRefusedError."""
    if not order:
        raise PluginRefusedError("its order has no samples")
    largest = max(order)
    if largest >= question.samples:
        raise PluginRefusedError(f"its order has sample {largest} of {question.samples}, which begin at 0")
    seen = bytearray(question.samples)
    for sample in order:
        seen[sample] = 1
    repeated = len(order) - sum(seen)
    if repeated > question.repeats:
        raise PluginRefusedError(
            f"its order has {repeated} samples that came before, and {question.repeats} may: a batch of each rank"
        )
