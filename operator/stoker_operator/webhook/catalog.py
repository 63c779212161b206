"""Datasets as the webhook sees them: one small entry each, made from the watch of a replica that need not lead."""

import logging
from typing import Any

from pydantic import ValidationError

from stoker_api.dataset import Dataset
from stoker_operator.core.catalog import CatalogEntry

log = logging.getLogger(__name__)


def parse_entry(raw: dict[str, Any]) -> CatalogEntry:
    """The entry of a raw Dataset. One that does not parse gives the strict defaults: its own namespace may mount it."""
    try:
        return CatalogEntry.of(Dataset.model_validate(raw))
    except ValidationError as error:
        meta = raw["metadata"]
        log.warning("Dataset %s/%s does not parse, pods get the defaults: %s", meta["namespace"], meta["name"], error)
        return CatalogEntry(meta["namespace"], meta["name"], deleting="deletionTimestamp" in meta)
