"""Datasets that were made a moment ago, perhaps in one file with the pod that names them: no watch told of them yet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from stoker_kube.api import Kube
from stoker_kube.errors import KubeError
from stoker_kube.resources import DATASETS
from stoker_operator.core.acceptance import parse_dataset
from stoker_operator.core.catalog import CatalogEntry, catalog_entry

log = logging.getLogger(__name__)

SECONDS = 2.0  # for one look: the API server waits 10 for the webhook, and a pod may name several Datasets
AT_ONCE = 4  # looks under way; beyond it the catalog has the last word, so that nobody floods the API server through us

LookUp = Callable[[str], Awaitable[CatalogEntry | None]]


class LateDatasets:
    """A look at the API server for a Dataset that the catalog lacks, bounded in time and number."""

    def __init__(self, kube: Kube) -> None:
        self._kube: Final = kube
        self._looking = 0

    async def find(self, key: str) -> CatalogEntry | None:
        """Find the Dataset ``namespace/name``; None when there is none, or when it could not be asked for."""
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
