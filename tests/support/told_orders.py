"""Order plug-ins that answer in the test's own process."""

import asyncio
import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_plugins.order_questions import EpochQuestion
from stoker_plugins.questions import PluginQuestion
from stoker_sidecar.agent.questions.plugins.node_plugins import AskedPlugins, NodePlugins, PluginLink
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import PluginRefusedError


def told(name: str, order: "array[int]") -> bytes:
    """Return an order in the format of a plug-in's process."""
    return json.dumps({"name": name, "samples": len(order)}).encode() + b"\n" + order.tobytes()


def mine(link: PluginLink) -> NodePlugins:
    """Return a node's plug-ins: one for orders."""
    return NodePlugins(link, orders=["mine"])


class LoadedPlugins(PluginLink):
    """Loads each plug-in, except those that are ``missing``, by name and reason."""

    missing: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))

    async def ask(self, names: Sequence[str], question: PluginQuestion[object]) -> AskedPlugins:
        """Answer for one plug-in."""
        (name,) = names
        try:
            told = await self.order(name, question.epoch) if isinstance(question, EpochQuestion) else self.load(name)
        except PluginRefusedError as error:
            return AskedPlugins((ToldAnswer(name, "", refused=str(error)),))
        return AskedPlugins((ToldAnswer(name, f"stoker-{name} 1", told),))

    def load(self, name: str) -> bytes:
        """Return the answer of a loaded plug-in. Raises PluginRefusedError."""
        if name in self.missing:
            raise PluginRefusedError(self.missing[name])
        return json.dumps({"name": name}).encode() + b"\n"

    async def order(self, name: str, question: OrderQuestion) -> bytes:
        """Return an order. Raises PluginRefusedError."""
        raise PluginRefusedError(f"it has no order of {question.samples} samples")


class TorchOrders(LoadedPlugins):
    """Returns the order of PyTorch's distributed sampler, and records its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[OrderQuestion] = []

    async def order(self, name: str, question: OrderQuestion) -> bytes:
        """Return an order."""
        self.asked.append(question)
        order = SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(
            question.samples, question.seed + question.epoch, question.epoch
        )
        return told(name, order)


class AskedNothing(LoadedPlugins):
    """Returns no order, for a reason. Without a reason, it hangs."""

    def __init__(self, why: str = "") -> None:
        super().__init__()
        self.why = why
        self.times = 0

    async def order(self, name: str, question: OrderQuestion) -> bytes:
        """Return no order."""
        self.times += 1
        if not self.why:
            await asyncio.Event().wait()
        raise PluginRefusedError(self.why)
