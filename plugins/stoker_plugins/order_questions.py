"""The questions for an order plug-in: whether it can be loaded, and the order of an epoch.

An answer is a line of JSON, then the samples as 4-byte integers.
"""

import json
import resource
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from stoker_orders.predictors.interface import OrderPlugin, OrderQuestion
from stoker_plugins.discovery import PluginKind
from stoker_tuning.frameworks.answers import PluginRefusedError, answer_object

_MOST_HEAD = 4096
_SECONDS = 30.0
# CPU: in Python, a million samples take about a second. Written memory: 64 bytes per sample, as a list of numbers and
# its copies take, and what libraries need.
_CPU_SECONDS, _MEMORY, _MEMORY_OF_A_SAMPLE = 30, 128 * 1024**2, 64


def _limits(samples: int) -> tuple[tuple[int, int], ...]:
    return (resource.RLIMIT_CPU, _CPU_SECONDS), (resource.RLIMIT_DATA, _MEMORY + _MEMORY_OF_A_SAMPLE * samples)


@dataclass(frozen=True)
class LoadQuestion:
    """Whether an order plug-in can be loaded."""

    kind: ClassVar = PluginKind.ORDER
    seconds: ClassVar = _SECONDS
    most_bytes: ClassVar = _MOST_HEAD
    limits: ClassVar = _limits(0)

    def mapping(self) -> dict[str, Any]:
        """Return the question as a JSON object."""
        return {"kind": self.kind, "order": None}

    def answer(self, plugin: OrderPlugin) -> bytes:
        """Return the plug-in's name. Raises AttributeError and TypeError if it is no order plug-in."""
        if not callable(plugin.order):
            raise TypeError("its order is no method")
        return json.dumps({"name": plugin.name}).encode() + b"\n"

    def read(self, name: str, said: bytes) -> bool:
        """Return True. Raises PluginRefusedError."""
        return bool(answer_object(name, said[:_MOST_HEAD]))


@dataclass(frozen=True)
class EpochQuestion:
    """The order of one epoch."""

    kind: ClassVar = PluginKind.ORDER
    seconds: ClassVar = _SECONDS
    epoch: OrderQuestion

    @property
    def most_bytes(self) -> int:
        """The length of the longest valid answer, and a sample more."""
        return _MOST_HEAD + 4 * (self.epoch.most + 1)

    @property
    def limits(self) -> tuple[tuple[int, int], ...]:
        """The resource limits of the plug-in's process."""
        return _limits(self.epoch.samples)

    def mapping(self) -> dict[str, Any]:
        """Return the question as a JSON object."""
        return {"kind": self.kind, "order": self.epoch.mapping()}

    def answer(self, plugin: OrderPlugin) -> bytes:
        """Compute the order. Raises any exception of the plug-in, and OverflowError for an invalid sample number.

        Cuts the order one sample beyond the bound, so that the caller refuses it.
        """
        samples = array("I", islice(plugin.order(self.epoch.mapping()), self.epoch.most + 1))
        if sys.byteorder == "big":
            samples.byteswap()
        return json.dumps({"name": plugin.name, "samples": len(samples)}).encode() + b"\n" + samples.tobytes()

    def read(self, name: str, said: bytes) -> "array[int]":
        """Check the answer of plug-in ``name``. Blocks: 0.1 s for a million samples.

        Raises PluginRefusedError.
        """
        head, _, numbers = said.partition(b"\n")
        count = answer_object(name, head[:_MOST_HEAD]).get("samples")
        if type(count) is not int or count < 0:
            raise PluginRefusedError("it gave no answer that can be read")
        if count > self.epoch.most:
            raise PluginRefusedError(f"its order has more than the {self.epoch.most} samples that this epoch may have")
        if len(numbers) != 4 * count:
            raise PluginRefusedError("its order does not end")
        order = array("I", numbers)
        if sys.byteorder == "big":
            order.byteswap()
        check_order(order, self.epoch)
        return order


def order_question(mapping: Mapping[str, Any]) -> LoadQuestion | EpochQuestion:
    """Return the question in ``mapping``. Raises ValueError."""
    try:
        order = mapping["order"]
        return LoadQuestion() if order is None else EpochQuestion(OrderQuestion.of(order))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("a question for an order plug-in describes an epoch") from error


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
