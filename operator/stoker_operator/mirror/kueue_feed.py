"""Watches Kueue's objects while Kueue is installed, which may change at any time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from stoker_kube.api import Kube, Object
from stoker_kube.errors import Forbidden, NotFound
from stoker_kube.informer import Informer
from stoker_kube.resources import ADMISSION_CHECKS, WORKLOADS, Kind
from stoker_kube.watch import watch
from stoker_operator.core.kueue.kueue_objects import parse_admission_check, parse_workload
from stoker_operator.mirror.state import ClusterState

log = logging.getLogger(__name__)
LOOK_AGAIN = 20.0  # seconds between two checks whether Kueue is installed


class KueueFeed:
    """Fills the tables of AdmissionChecks and Workloads while the API server has them."""

    def __init__(
        self, kube: Kube, state: ClusterState, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    ) -> None:
        self._kube: Final = kube
        self._state: Final = state
        self._sleep: Final = sleep
        self._told = ""  # the last logged message

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self._follow()
            except* NotFound:
                self._tell("Kueue is not installed: checking again every %.0f s")
            except* Forbidden:
                self._tell("Kueue's Workloads may not be read: install the chart with kueue.enabled=true")
            # Clear the tables: without a watch they would keep deleted objects.
            self._state.admission_checks.clear()
            self._state.queued_workloads.clear()
            await self._sleep(LOOK_AGAIN)

    async def _follow(self) -> None:
        checks = self._informer(ADMISSION_CHECKS, parse_admission_check, self._state.admission_checks.feed)
        workloads = self._informer(WORKLOADS, parse_workload, self._state.queued_workloads.feed)
        async with asyncio.TaskGroup() as tasks:
            for informer in (checks, workloads):
                tasks.create_task(informer.run(), name="informer")
            await checks.wait_synced()
            await workloads.wait_synced()
            self._tell("Kueue is installed: Workloads of AdmissionChecks are answered")

    def _informer(
        self, kind: Kind, transform: Callable[[Object], Any], on_change: Callable[..., None]
    ) -> Informer[Any]:
        return Informer(watch(self._kube, kind, give_up_on=(NotFound, Forbidden)), transform, on_change)

    def _tell(self, text: str) -> None:
        if text != self._told:
            log.info(text, *([LOOK_AGAIN] if "%" in text else []))
        self._told = text
