"""Moves pods that started on a cold dataset to the native tree as soon as it is whole."""

import time
from collections.abc import Callable, Iterable

from stoker_api.dataset import MountMode
from stoker_api.nodecache import NodeDatasetStatus, NodeMount, NodePhase
from stoker_sidecar.csi.publisher import Publisher
from stoker_sidecar.node.plan import NodePlan

# A mount that stays on FUSE though its version is whole was refused by the system: tried again, but not on every change.
TRY_AGAIN_SECONDS = 30.0


class Promoter:
    """Watches the plan for versions that became whole."""

    def __init__(self, plan: NodePlan, publisher: Publisher, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._publisher = publisher
        self._clock = clock
        self._tried: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            token = self._plan.changes.token()
            for row in promotable(self._plan.rows.values(), self._publisher.rows()):
                await self._promote(row.uid, row.version)
            await self._plan.changes.wait(token)

    async def _promote(self, uid: str, version: str) -> None:
        if self._clock() - self._tried.get((uid, version), float("-inf")) < TRY_AGAIN_SECONDS:
            return
        await self._publisher.promote(uid, version)
        if any((row.uid, row.version) == (uid, version) for row in self._left()):
            self._tried[(uid, version)] = self._clock()

    def _left(self) -> list[NodeDatasetStatus]:
        return promotable(self._plan.rows.values(), self._publisher.rows())


def promotable(rows: Iterable[NodeDatasetStatus], mounts: Iterable[NodeMount]) -> list[NodeDatasetStatus]:
    """Datasets that are whole while pods still read them through FUSE."""
    slow = {(m.dataset_namespace, m.dataset, m.version) for m in mounts if m.mode is MountMode.FUSE}
    return [row for row in rows if row.phase is NodePhase.WARM and (row.namespace, row.name, row.version) in slow]
