"""Describes the order of a sampler, so that a node can prefetch (docs/guides/known-orders.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stoker_client.internal.accelerate_order import seedable_order
from stoker_client.internal.dataset_files import folder_of, mount_of
from stoker_client.internal.guard import is_of_kind

_MOST = 512  # characters of the field in a report
_SAMPLERS_OF_TORCH = "torch.utils.data"


def order_text(sampler: Any, data: Any, place: tuple[int | None, int | None], **said: Any) -> str:
    """Return the order of a sampler's next iteration as JSON. Empty: unknown.

    ``data`` is the dataset, which gives the files unless ``files`` does. ``place`` is rank and world size of the
    process. If a sampler deals to another place, a wrapper deals its batches again, and the order is unknown.
    """
    order = _of_torch(sampler) if type(sampler).__module__.startswith(_SAMPLERS_OF_TORCH) else _own(sampler)
    files = said.pop("files", None) or _files(data)
    if order is None or files is None or not _is_of(sampler, place):
        return ""
    text = json.dumps({**{name: value for name, value in said.items() if value}, **order, "files": files})
    return text if len(text) <= _MOST else ""


def sampler_of(loader: Any, epoch: int | None = None) -> Any:
    """Return the sampler of a DataLoader, or None if its batches come from an unknown class.

    ``epoch`` is the epoch that an Accelerate loader gets before its next iteration, if any. Loaders with an unknown
    batch sampler also have a sampler, but do not use it. Known are PyTorch, and Accelerate with a seeded sampler.
    """
    batches = getattr(loader, "batch_sampler", None)
    if batches is None:
        return getattr(loader, "sampler", None)
    dealt = seedable_order(loader, epoch)
    if dealt is not None:
        return dealt
    return batches.sampler if is_of_kind(batches, "BatchSampler", _SAMPLERS_OF_TORCH) else None


def _own(sampler: Any) -> dict[str, Any] | None:
    """Return the order that a sampler of this package describes."""
    said = sampler.sampling() if hasattr(sampler, "sampling") else None
    return said if isinstance(said, dict) else None


def _of_torch(sampler: Any) -> dict[str, Any] | None:
    """Return the order of those PyTorch samplers that their arguments determine."""
    kind = type(sampler).__name__
    if kind == "SequentialSampler":
        return {"sampler": "torch-sequential", "ranks": 1}
    if kind != "DistributedSampler":
        return None
    said = {"seed": sampler.seed, "epoch": sampler.epoch} if sampler.shuffle else {}
    order = {"sampler": "torch-distributed" if sampler.shuffle else "torch-sequential", "ranks": sampler.num_replicas}
    return {**order, **{name: value for name, value in {**said, "dropLast": sampler.drop_last}.items() if value}}


def _is_of(sampler: Any, place: tuple[int | None, int | None]) -> bool:
    """Return True if a sampler deals to this process, with the current number of ranks."""
    rank = getattr(sampler, "rank", 0)
    ranks = getattr(sampler, "world_size", getattr(sampler, "num_replicas", 1))
    return (rank, ranks) == (place[0] or 0, place[1] or 1)


def _files(data: Any) -> Mapping[str, Any] | None:
    folder = folder_of(data)
    if not folder:
        return None
    _, path = mount_of(folder)
    return {"layout": "ImageFolder", "path": path}
