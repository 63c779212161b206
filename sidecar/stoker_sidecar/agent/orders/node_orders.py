"""Follow, check and prefetch in the sample orders that pods of this node declare."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from stoker_api.node_caches.node_workload import NodeWorkload, OrderSource
from stoker_sidecar.agent.orders.followed_order import FollowedOrder, Tell
from stoker_sidecar.agent.orders.order_groups import OrderKey, order_groups
from stoker_sidecar.agent.orders.order_rows import OrderView, with_order
from stoker_sidecar.agent.orders.reported_plans import ReportedOrders, reported_plans
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

log = logging.getLogger(__name__)
# Samples of all orders together: 10 bytes each, 16 bytes at the end of an epoch.
MOST_SAMPLES = 4_000_000
# Seconds between two rounds while an order is followed: FUSE servers report readers' positions as often.
_LOOK = 0.25
_LOOK_SELDOM = 1.0  # while no order is followed, but pods report orders


class NodeOrders:
    """All orders of a node, from specs and from reports. Call ``run``. Not thread-safe.

    ``mounted`` returns the mounts of pods. ``reader`` finds their samples. ``tell`` sends a window to the fetcher.
    ``changes``: marked when mounts or reported orders may have changed. ``reported``: the orders that pods report.
    ``plugins``: source of orders that Stoker cannot compute.
    """

    def __init__(
        self,
        mounted: Callable[[], Iterable[Published]],
        folders: CacheFolders,
        reader: VersionReader,
        tell: Tell,
        changes: Changes,
        reported: ReportedOrders | None = None,
        plugins: NodePlugins | None = None,
    ) -> None:
        self._mounted = mounted
        self._folders = folders
        self._reader = reader
        self._tell = tell
        self._changes = changes
        self.reported = ReportedOrders(changes.mark) if reported is None else reported
        self._plugins = NodePlugins() if plugins is None else plugins
        self._refused: dict[str, str] = {}  # the error in a pod's reported order, by pod UID
        self._followed: dict[OrderKey, FollowedOrder] = {}
        self._troubles: dict[OrderKey, str] = {}

    def take(self, tree: ObservedTree, pod_uid: str, batch: ReaderBatch) -> None:
        """Take observed reads of a pod. An empty UID: several pods that the observation cannot tell apart."""
        for followed in self._followed.values():
            if followed.group.reads(tree, pod_uid):
                followed.take(tree, batch)

    def shown(self, row: NodeWorkload) -> NodeWorkload:
        """Return a pod's row with the state of its order."""
        view = self.view(row.uid)
        return row if view is None else with_order(row, view)

    def view(self, pod_uid: str) -> OrderView | None:
        """Return the state of a pod's order; None if the pod declares none."""
        own = next((one for one in self._followed.values() if pod_uid in one.group.pods), None)
        if own is not None:
            return replace(own.view, source=own.group.source)
        refused = self._refused.get(pod_uid)
        return OrderView(message=refused, source=OrderSource.REPORT) if refused else None

    async def run(self) -> None:
        """Follow the orders of mounted versions, until cancelled."""
        while True:
            token = self._changes.token()
            await self._follow()
            busy = [await self._work(followed) for followed in tuple(self._followed.values())]
            seldom = _LOOK_SELDOM if len(self.reported) else None
            await self._changes.wait(token, 0.0 if any(busy) else _LOOK if self._followed else seldom)

    async def _follow(self) -> None:
        mounted = tuple(self._mounted())
        plans, self._refused = reported_plans(mounted, self.reported.known())
        groups = {group.key: group for group in order_groups(mounted, plans)}
        for key in [key for key, one in self._followed.items() if key not in groups or groups[key].ranks != one.ranks]:
            await self._followed.pop(key).end()
            self._troubles.pop(key, None)
        for key, group in groups.items():
            if key in self._followed:
                self._followed[key].regroup(group)
            else:
                self._followed[key] = FollowedOrder(
                    group, self._folders, self._reader, self._tell, self._left, self._plugins
                )

    def _left(self) -> int:
        return MOST_SAMPLES - sum(one.samples for one in self._followed.values())

    async def _work(self, followed: FollowedOrder) -> bool:
        """Work on one order. Its errors do not affect other orders."""
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
