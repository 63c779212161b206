"""The order plug-ins of a node: which of them may be asked, one at a time, and what came of it."""

import asyncio
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.orders import parse_order
from stoker_sidecar.agent.order_link import AskOrder, OrderLink
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.plugins_protocol import ORDERS_SOCKET
from stoker_tuning.frameworks.answers import PluginRefusedError

ANSWERED, REFUSED = "answered", "refused"


class OrderPlugins:
    """The plug-ins of these names; ``link``: how they are asked. Not for threads."""

    def __init__(self, names: Sequence[str] = (), link: AskOrder | None = None) -> None:
        self._names = tuple(names) if link is not None else ()
        self._link = link
        self._one_at_a_time = asyncio.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()  # by name, and by what came of asking it
        self.seconds: defaultdict[str, float] = defaultdict(float)  # by name

    async def order(self, name: str, question: OrderQuestion) -> "array[int]":
        """Return an epoch's order, as a plug-in tells it. Raises PluginRefusedError with a sentence."""
        if self._link is None or name not in self._names:
            raise PluginRefusedError(
                "this node may not ask it: name it in sidecar.orderPlugins of the chart (docs/PLUGINS.md)"
            )
        async with self._one_at_a_time:
            began = asyncio.get_running_loop().time()
            try:
                order = await in_thread(parse_order, name, await self._link.ask(name, question), question)
            except PluginRefusedError:
                self.counts[name, REFUSED] += 1
                raise
            finally:
                self.seconds[name] += asyncio.get_running_loop().time() - began
        self.counts[name, ANSWERED] += 1
        return order


def order_plugins(names: Sequence[str], run_dir: Path) -> OrderPlugins:
    """Return the order plug-ins of these names, whose asker has its socket in ``run_dir``."""
    return OrderPlugins(names, OrderLink(run_dir / ORDERS_SOCKET) if names else None)
