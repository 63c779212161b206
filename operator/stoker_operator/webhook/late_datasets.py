"""Finds Datasets that were created a moment ago, perhaps with the pod, and that the watch has not reported yet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from stoker_kube.api import Kube
from stoker_kube.errors import KubeError
from stoker_kube.resources import DATASETS
from stoker_operator.core.plans.admission import parse_dataset
from stoker_operator.core.views.catalog import CatalogEntry, catalog_entry

log = logging.getLogger(__name__)

SECONDS = 2.0  # for one lookup; a pod may name several Datasets
AT_ONCE = 4  # lookups in flight; above it the catalog decides, so that pods cannot flood the API server

LookUp = Callable[[str], Awaitable[CatalogEntry | None]]


class LateDatasets:
    """Looks up Datasets that the catalog lacks, bounded in time and number."""

    def __init__(self, kube: Kube) -> None:
        self._kube: Final = kube
        self._looking = 0

    async def find(self, key: str) -> CatalogEntry | None:
        """Return the Dataset ``namespace/name``; None if it does not exist or the lookup failed."""
        if self._looking >= AT_ONCE:
            return None
        self._looking += 1
        try:
            async with asyncio.timeout(SECONDS):
                return await self._get(key)
        except (KubeError, TimeoutError, ValueError) as error:
            log.warning("Dataset %s could not be looked up for a pod: %s", key, error or "no answer")
            return None
        finally:
            self._looking -= 1

    async def _get(self, key: str) -> CatalogEntry | None:
        namespace, _, name = key.partition("/")
        # A list of one: the operator may list Datasets, and needs no right to get them.
        found = (await self._kube.list(DATASETS, namespace, field_selector=f"metadata.name={name}")).items
        return catalog_entry(parse_dataset(found[0])) if found else None
