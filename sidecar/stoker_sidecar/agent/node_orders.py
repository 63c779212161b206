"""The orders in which pods of this node are said to read: each one followed, checked, and fetched ahead in."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from stoker_api.node_workload import NodeWorkload, OrderSource
from stoker_sidecar.agent.core.order_groups import OrderKey, order_groups
from stoker_sidecar.agent.core.order_rows import OrderView, with_order
from stoker_sidecar.agent.core.reading import ObservedTree, ReaderBatch
from stoker_sidecar.agent.core.reported_plans import reported_plans
from stoker_sidecar.agent.followed_order import FollowedOrder, Tell
from stoker_sidecar.agent.order_plugins import OrderPlugins
from stoker_sidecar.agent.reported_orders import ReportedOrders
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

log = logging.getLogger(__name__)
# Samples of all orders together: 16 bytes each while an epoch ends, 10 bytes mostly.
MOST_SAMPLES = 4_000_000
# Seconds between two looks while something is followed: where readers are is told as often by FUSE servers.
_LOOK = 0.25
_LOOK_SELDOM = 1.0  # while nothing is followed, and pods say what may be


class NodeOrders:
    """All orders of a node, of specs and of reports. ``run`` it; not for threads.

    ``mounted``: what pods have mounted. ``tell`` hands a window to the fetcher. ``changes``: marked when other pods may
    have mounted something, or say an order. ``reported``: the orders that pods say. ``plugins``: who may be asked for
    those that we cannot compute.
    """

    def __init__(
        self,
        mounted: Callable[[], Iterable[Published]],
        folders: CacheFolders,
        tell: Tell,
        changes: Changes,
        reported: ReportedOrders | None = None,
        plugins: OrderPlugins | None = None,
    ) -> None:
        self._mounted = mounted
        self._folders = folders
        self._tell = tell
        self._changes = changes
        self._reported = ReportedOrders(changes.mark) if reported is None else reported
        self._plugins = OrderPlugins() if plugins is None else plugins
        self._refused: dict[str, str] = {}  # what is wrong with what a pod says, by its UID
        self._followed: dict[OrderKey, FollowedOrder] = {}
        self._troubles: dict[OrderKey, str] = {}

    def take(self, tree: ObservedTree, pod_uid: str, batch: ReaderBatch) -> None:
        """Take what a pod was seen to read; of an empty UID: what several pods that cannot be told apart did."""
        for followed in self._followed.values():
            if followed.group.reads(tree, pod_uid):
                followed.take(tree, batch)

    def shown(self, row: NodeWorkload) -> NodeWorkload:
        """Return a pod's row with what is known of its order."""
        view = self.view(row.uid)
        return row if view is None else with_order(row, view)

    def view(self, pod_uid: str) -> OrderView | None:
        """Return what is known of a pod's order; None: it says none."""
        own = next((one for one in self._followed.values() if pod_uid in one.group.pods), None)
        if own is not None:
            return replace(own.view, source=own.group.source)
        refused = self._refused.get(pod_uid)
        return OrderView(message=refused, source=OrderSource.REPORT) if refused else None

    async def run(self) -> None:
        """Follow what is mounted, until cancelled."""
        while True:
            token = self._changes.token()
            await self._follow()
            busy = [await self._work(followed) for followed in tuple(self._followed.values())]
            seldom = _LOOK_SELDOM if len(self._reported) else None
            await self._changes.wait(token, 0.0 if any(busy) else _LOOK if self._followed else seldom)

    async def _follow(self) -> None:
        mounted = tuple(self._mounted())
        plans, self._refused = reported_plans(mounted, self._reported.known())
        groups = {group.key: group for group in order_groups(mounted, plans)}
        for key in [key for key, one in self._followed.items() if key not in groups or groups[key].ranks != one.ranks]:
            await self._followed.pop(key).end()
            self._troubles.pop(key, None)
        for key, group in groups.items():
            if key in self._followed:
                self._followed[key].regroup(group)
            else:
                left = MOST_SAMPLES - sum(one.samples for one in self._followed.values())
                self._followed[key] = FollowedOrder(group, self._folders, self._tell, left, self._plugins)

    async def _work(self, followed: FollowedOrder) -> bool:
        """Work at one order; whatever goes wrong with it stays there."""
        try:
            more = await followed.work()
        except (SidecarError, OSError) as error:
            if self._troubles.get(followed.group.key) != str(error):
                self._troubles[followed.group.key] = str(error)
                log.info("the order of version %s waits: %s", followed.group.version[1][:12], error)
            return False
        except Exception as error:
            log.exception("the order of version %s is not followed any more", followed.group.version[1][:12])
            followed.give_up(f"it cannot be followed, please report this: {error!r}")
            return False
        self._troubles.pop(followed.group.key, None)
        return more
