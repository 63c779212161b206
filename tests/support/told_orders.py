"""Order plug-ins that answer in the test's own process."""

import asyncio
import json
from array import array

from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_tuning.frameworks.answers import PluginRefusedError


def told(name: str, order: "array[int]") -> bytes:
    """Return an order as the process of a plug-in tells it."""
    return json.dumps({"name": name, "samples": len(order)}).encode() + b"\n" + order.tobytes()


class TorchOrders:
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


class AskedNothing:
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
