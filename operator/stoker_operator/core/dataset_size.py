"""The bytes that a node needs to hold a Dataset."""

from collections.abc import Mapping

from stoker_api.dataset import Dataset
from stoker_api.meta import parse_quantity
from stoker_api.warm_paths import paths_digest
from stoker_operator.core.node_states import NodeState


def size_on_node(dataset: Dataset) -> int:
    """Return bytes that a node needs to hold it, as far as the quota allows; 0 until it was listed."""
    size = _part_size(dataset)
    if size is None:
        size = dataset.status.bytes or 0
    quota = dataset.spec.cache.quota
    return min(size, parse_quantity(quota)) if quota else size


def _part_size(dataset: Dataset) -> int | None:
    """Return bytes of what its paths name; None where all of it is meant, or that is not known yet."""
    part = dataset.status.warm_paths
    wanted = paths_digest(dataset.spec.warm.told_paths)
    return part.bytes if part is not None and wanted and part.digest == wanted else None


def listed_size(dataset: Dataset, held: Mapping[str, NodeState]) -> int:
    """Return bytes that a node needs to hold what was just listed, which the status may not have yet."""
    if _part_size(dataset) is not None:
        return size_on_node(dataset)
    listings = (state.reported.listing for state in held.values() if state.reported)
    size = max((one.bytes for one in listings if one and one.version), default=0)
    quota = dataset.spec.cache.quota
    return min(size, parse_quantity(quota)) if quota else size
