"""The order plug-ins of a node: which of them may be asked, one at a time, and what came of it."""

import asyncio
import logging
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from stoker_api.nodecache import NodeOrderPlugin
from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.orders import check_loaded, parse_order
from stoker_sidecar.agent.core.order_plugin_standing import OrderPluginStanding, after_look, after_order
from stoker_sidecar.agent.order_link import AskOrder, OrderLink
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.plugins_protocol import ORDERS_SOCKET
from stoker_tuning.frameworks.answers import PluginRefusedError

log = logging.getLogger(__name__)
ANSWERED, REFUSED = "answered", "refused"


class OrderPlugins:
    """The plug-ins of these names; ``link``: how they are asked. ``run`` it; not for threads.

    ``changes`` are marked when something else is known of one. ``clock``: the monotonic one, in seconds.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        link: AskOrder | None = None,
        changes: Changes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._changes = changes or Changes()
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._news = Changes()
        self._standings = {name: OrderPluginStanding(name) for name in names if link is not None}
        self.counts: Counter[tuple[str, str]] = Counter()  # by name, and by what came of asking it
        self.seconds: defaultdict[str, float] = defaultdict(float)  # by name

    def rows(self) -> tuple[NodeOrderPlugin, ...]:
        """Return a row for each plug-in of which something is known."""
        return tuple(one.row() for one in self._standings.values() if one.known)

    async def order(self, name: str, question: OrderQuestion) -> "array[int]":
        """Return an epoch's order, as a plug-in tells it. Raises PluginRefusedError with a sentence."""
        if self._link is None or name not in self._standings:
            raise PluginRefusedError(
                "this node may not ask it: name it in sidecar.orderPlugins of the chart (docs/PLUGINS.md)"
            )
        async with self._one_at_a_time:
            began = asyncio.get_running_loop().time()
            try:
                order = await in_thread(parse_order, name, await self._link.ask(name, question), question)
            except PluginRefusedError as error:
                self.counts[name, REFUSED] += 1
                self._stand(after_order(self._standings[name], str(error)))
                raise
            finally:
                self.seconds[name] += asyncio.get_running_loop().time() - began
        self.counts[name, ANSWERED] += 1
        self._stand(after_order(self._standings[name]))
        return order

    async def run(self) -> None:
        """See which are there, before a job needs one, and look again for those that are not, until cancelled."""
        for name in tuple(self._standings):
            await self._look(name)
        while True:
            token, now = self._news.token(), self._clock()
            waits = {name: wait for name, one in self._standings.items() if (wait := one.again_in(now)) is not None}
            due = [name for name, wait in waits.items() if wait <= 0]
            for name in due:
                await self._look(name)
            if not due:
                await self._news.wait(token, min(waits.values(), default=None))

    async def _look(self, name: str) -> None:
        if self._link is None:
            return
        async with self._one_at_a_time:
            told = await self._link.look(name)
        wrong = told.refused
        if not wrong:
            try:
                check_loaded(name, told.said)
            except PluginRefusedError as error:
                wrong = str(error)
        if wrong:
            log.warning("the order plug-in %s cannot be asked: %s", name, wrong)
        self._stand(after_look(self._standings[name], told.origin, wrong, self._clock()))

    def _stand(self, now: OrderPluginStanding) -> None:
        before = self._standings[now.name]
        self._standings[now.name] = now
        self._news.mark()
        if (now.known, now.row()) != (before.known, before.row()):
            self._changes.mark()


def order_plugins(names: Sequence[str], run_dir: Path, changes: Changes | None = None) -> OrderPlugins:
    """Return the order plug-ins of these names, whose asker has its socket in ``run_dir``."""
    return OrderPlugins(names, OrderLink(run_dir / ORDERS_SOCKET) if names else None, changes)
