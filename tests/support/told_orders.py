"""Order plug-ins that answer in the test's own process."""

import asyncio
import json
from array import array
from collections.abc import Mapping
from types import MappingProxyType

from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import PluginRefusedError


def told(name: str, order: "array[int]") -> bytes:
    """Return an order as the process of a plug-in tells it."""
    return json.dumps({"name": name, "samples": len(order)}).encode() + b"\n" + order.tobytes()


class LoadedPlugins:
    """Says of each plug-in that it is loaded, but for those that are ``missing``, by name and reason."""

    missing: Mapping[str, str] = MappingProxyType({})

    async def look(self, name: str) -> ToldAnswer:
        """Tell whether it is there."""
        if name in self.missing:
            return ToldAnswer(name, "", refused=self.missing[name])
        return ToldAnswer(name, f"stoker-{name} 1", json.dumps({"name": name}).encode() + b"\n")


class TorchOrders(LoadedPlugins):
    """Tells the order of PyTorch's distributed sampler, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[OrderQuestion] = []

    async def ask(self, name: str, question: OrderQuestion) -> bytes:
        """Tell an order."""
        self.asked.append(question)
        order = SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(
            question.samples, question.seed + question.epoch, question.epoch
        )
        return told(name, order)


class AskedNothing(LoadedPlugins):
    """Tells nothing, for a reason; none: it hangs."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.times = 0

    async def ask(self, name: str, question: OrderQuestion) -> bytes:
        """Tell nothing."""
        self.times += 1
        if not self.why:
            await asyncio.Event().wait()
        raise PluginRefusedError(self.why)
