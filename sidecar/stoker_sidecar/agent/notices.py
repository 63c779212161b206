"""Makes Kubernetes events of what the fetcher wants people to be told once: evictions, repairs, folders that fail."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Literal

from stoker_api.names import API_VERSION, Reason
from stoker_api.nodecache import NodeCache
from stoker_kube.api import Kube
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.wire.fetcher_protocol import Notice

_CALM = frozenset({Reason.EVICTED, Reason.HEALTHY})


class NoticeTeller:
    """Records the fetcher's notices as events of Datasets, and of this node's NodeCache."""

    def __init__(self, kube: Kube, node_name: str, plan: NodePlan) -> None:
        self._recorder = EventRecorder(kube, "stoker-sidecar")
        self._node_name = node_name
        self._plan = plan
        self._told = 0  # the highest number

    async def run(self) -> None:
        """Tell at every change, until cancelled."""
        writing = asyncio.create_task(self._recorder.run())
        try:
            while True:
                token = self._plan.changes.token()
                self.tell_new()
                await self._plan.changes.wait(token)
        finally:
            writing.cancel()

    def tell_new(self) -> None:
        """Queue an event for each notice that is new."""
        if self._plan.generation is None:
            return
        for notice in _after(self._told, self._plan.notices):
            kind: Literal["Normal", "Warning"] = "Normal" if notice.reason in _CALM else "Warning"
            self._recorder.event(self._about(notice), kind, notice.reason, f"{self._node_name}: {notice.message}")
            self._told = notice.number

    def _about(self, notice: Notice) -> ObjectRef:
        row = self._plan.planned.get(notice.uid) or self._plan.status_of(notice.uid)
        if row is None:
            return ObjectRef(API_VERSION, NodeCache.KIND, self._node_name, uid=self._plan.cache_uid)
        return ObjectRef(API_VERSION, "Dataset", row.name, row.namespace, row.uid)


def _after(number: int, notices: Iterable[Notice]) -> Iterator[Notice]:
    return (notice for notice in notices if notice.number > number)
