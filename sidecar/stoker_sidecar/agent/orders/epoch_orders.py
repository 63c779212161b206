"""Get the sample order of each epoch: compute it, or request it from an order plug-in in the background."""

import asyncio
import logging
import time
from collections.abc import Callable

from stoker_api.node_caches.node_workload import PLUGIN_TROUBLE
from stoker_orders.job_order import EpochOrder, JobOrder
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.agent.questions.plugins.plugin_standing import AGAIN_SECONDS
from stoker_sidecar.threads import in_thread
from stoker_tuning.frameworks.answers import PluginRefusedError

log = logging.getLogger(__name__)
# Pause between plug-in calls during a search through epochs, as a multiple of the duration of the last call.
_REST = 3.0


class EpochOrders:
    """Orders of the epochs of one job. Not thread-safe. Call ``end`` when done. ``clock``: monotonic seconds.

    A plug-in that refuses is called again after one and after ten minutes, then never again for this job. The refusal
    may depend on the job's own sampling, so other jobs still call the plug-in.
    """

    def __init__(self, plugins: NodePlugins, clock: Callable[[], float] = time.monotonic) -> None:
        self._plugins = plugins
        self._clock = clock
        self._last: EpochOrder | None = None
        self._asking: asyncio.Task[None] | None = None
        self._troubles = 0
        self._not_before = 0.0
        self.refused = ""  # why the plug-in returns no order, a sentence; empty if it returns one

    async def epoch(self, order: JobOrder, number: int, *, searching: bool = False) -> EpochOrder | None:
        """Return the order of an epoch. None: the call of the plug-in is pending, or it failed. Does not wait for it.

        ``searching``: the caller goes through many epochs, which may take long.
        """
        plugin = order.plan.plugin
        if plugin is None:
            return await in_thread(order.epoch, number)
        if self._asking is not None and self._asking.done():
            done, self._asking = self._asking, None
            done.result()
        if self._last is not None and self._last.number == number:
            return self._last
        if self._asking is None and self._troubles <= len(AGAIN_SECONDS) and self._clock() >= self._not_before:
            asking = self._ask(plugin, order, number, _REST if searching else 0.0)
            self._asking = asyncio.create_task(asking, name=f"order plug-in {plugin}")
        return None

    async def end(self) -> None:
        """Cancel a pending plug-in call and forget the last order. Idempotent."""
        self._last = None
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
            self._asking = None

    async def _ask(self, plugin: str, order: JobOrder, number: int, rest: float) -> None:
        began = self._clock()
        try:
            told = await self._plugins.order(plugin, order.question(number))
        except PluginRefusedError as error:
            self._leave_out(plugin, str(error))
            return
        self._last = await in_thread(order.told, number, told)
        self._troubles, self.refused = 0, ""
        self._not_before = self._clock() + rest * (self._clock() - began)

    def _leave_out(self, plugin: str, why: str) -> None:
        self._troubles += 1
        last = self._troubles > len(AGAIN_SECONDS)
        again = "; it is not asked again for this job on this node" if last else ""
        self.refused = f"{PLUGIN_TROUBLE} {plugin} is left out: {why}{again}"
        self._not_before = self._clock() + (0.0 if last else AGAIN_SECONDS[self._troubles - 1])
        log.warning("%s", self.refused)
