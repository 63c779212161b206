"""Which part of a version a Dataset wants warm, and whether a node's word is about just that part."""

from collections.abc import Iterable

from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_api.warm_paths import WarmPathsStatus, digest_as_paths, list_named, paths_digest

_DONE = frozenset({NodePhase.FULL, NodePhase.PATHS_WARM})


def is_warm(report: NodeDatasetStatus, paths: tuple[str, ...]) -> bool:
    """Tell whether a node has all that it will ever have of what these paths name; of the whole version, for none.

    A node that was told other paths says so by their digest: what it has of those does not count.
    """
    if report.phase is NodePhase.WARM:
        return True
    told = report.warm_paths.digest if report.warm_paths is not None else ""
    return report.phase in _DONE and told == paths_digest(paths)


def part_of(report: NodeDatasetStatus, paths: tuple[str, ...]) -> WarmPathsStatus | None:
    """Return a node's figures of what these paths name; None where it has none yet, and where there are no paths."""
    part = report.warm_paths
    return part if paths and part is not None and part.digest == paths_digest(paths) else None


def knows_no_list(report: NodeDatasetStatus, paths: tuple[str, ...]) -> bool:
    """Tell whether a node has taken a list for a path: its sidecar is of a release before there were lists."""
    told = report.warm_paths.digest if report.warm_paths is not None else ""
    return bool(list_named(paths)) and told == digest_as_paths(paths)


def least_of(parts: Iterable[WarmPathsStatus]) -> WarmPathsStatus | None:
    """Return the figures of the node that has least; None where no node has any."""
    return min(parts, key=lambda part: part.warm_bytes, default=None)
