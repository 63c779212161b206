"""Figures of pods, grouped by node in the form of NodeCaches. Pure."""

from collections.abc import Iterable
from typing import Protocol

from stoker_api.jobs.pod_figures import FRESH_SECONDS, PodFigures
from stoker_api.meta import ObjectMeta, format_duration
from stoker_api.node_caches.node_hardware import NodeHardware
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_api.times import format_time, parse_time

ASK_FOR_FIGURES = (
    "You may not read pod figures {where}{but}. Ask an administrator for the ClusterRole view, edit or stoker-figures "
    "there, or for stoker-node-view."
)
ASK_FOR_NODES = (
    "You may not read NodeCaches, which name pods and Datasets of all namespaces. Ask an administrator for a "
    "ClusterRoleBinding to the ClusterRole stoker-node-view."
)


class WorkloadSource(Protocol):
    """A cluster or a local mount."""

    async def workload_caches(self, namespace: str) -> list[NodeCache]:
        """Return figures of the pods of a namespace, or of all if it is empty, by node. Raises CliError."""


def as_node_caches(figures: Iterable[PodFigures], now: float) -> list[NodeCache]:
    """Return figures of pods in the form of the NodeCaches of their nodes. ``now``: seconds since the epoch."""
    nodes: dict[str, list[PodFigures]] = {}
    for row in figures:
        nodes.setdefault(row.node, []).append(row)
    return [_node(name, rows, now) for name, rows in sorted(nodes.items())]


def _node(name: str, rows: list[PodFigures], now: float) -> NodeCache:
    status = NodeCacheStatus(
        workloads=tuple(_dated(row, now) for row in rows),
        mounts=tuple(mount for row in rows for mount in row.mounts),
        hardware=next((row.hardware for row in rows if row.hardware is not None), NodeHardware()),
    )
    return NodeCache(metadata=ObjectMeta(name=name), status=status)


def _dated(row: PodFigures, now: float) -> NodeWorkload:
    taken = format_time(now - row.age_seconds, "milliseconds")
    return row.workload.model_copy(update={"figures_at": taken})


def age_of(row: NodeWorkload, now: float) -> float | None:
    """Return the age of the figures of a row in seconds, or None if it is unknown."""
    return None if row.figures_at is None else max(0.0, now - parse_time(row.figures_at))


def is_fresh(row: NodeWorkload, now: float) -> bool:
    """Return True if the figures of a row are recent enough to show without a mark."""
    age = age_of(row, now)
    return age is not None and age <= FRESH_SECONDS


def age_words(row: NodeWorkload, now: float) -> str:
    """Format the age of the figures of a row, empty if unknown."""
    age = age_of(row, now)
    return "" if age is None else f"{age:.0f}s" if age < 60 else format_duration(age)
