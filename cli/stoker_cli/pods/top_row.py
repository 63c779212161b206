"""Rows of workloads, for `stoker top` and the dashboard. Pure."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.access.pod_figures import age_words, is_fresh
from stoker_cli.output import printable
from stoker_cli.rows import UNKNOWN, epoch_words, number_words, order_words

_LEAST = float("-inf")


class TopRow(NamedTuple):
    """A workload and its node."""

    node: str
    workload: NodeWorkload

    def words(self, now: float) -> tuple[str, ...]:
        """Return the cells of a line of the table. ``now``: seconds since the epoch."""
        row = self.workload
        gain = "" if row.gain_percent is None else f"{row.gain_percent:+d}%"
        stall = "" if row.stall_percent is None else f"{row.stall_percent}%"
        epoch = epoch_words(row, fresh=is_fresh(row, now))
        cells = (row.pod, self.node, row.phase, epoch, number_words(row.items_per_second), stall, age_words(row, now))
        return tuple(printable(word) or UNKNOWN for word in (*cells, order_words(row), row.tuned, gain))

    def wire(self) -> dict[str, object]:
        """Return it as JSON."""
        return {"node": self.node, **self.workload.wire()}


def _number(value: float | None) -> float:
    return _LEAST if value is None else value


# Sort keys. Names sort ascending, figures descending.
SORTS: dict[str, Callable[[TopRow], tuple[float | str, ...]]] = {
    "pod": lambda row: (row.workload.pod,),
    "node": lambda row: (row.node, row.workload.pod),
    "phase": lambda row: (row.workload.phase, row.workload.pod),
    "items": lambda row: (-_number(row.workload.items_per_second), row.workload.pod),
    "stall": lambda row: (-_number(row.workload.stall_percent), row.workload.pod),
    "gain": lambda row: (-_number(row.workload.gain_percent), row.workload.pod),
}


def top_rows(caches: Iterable[NodeCache], namespace: str, by: str) -> list[TopRow]:
    """Return the sorted workloads of a namespace, or of all if it is empty."""
    rows = (TopRow(cache.metadata.name, row) for cache in caches for row in cache.status.workloads)
    return sorted((row for row in rows if not namespace or _is_in(row, namespace)), key=SORTS[by])


def _is_in(row: TopRow, namespace: str) -> bool:
    return row.workload.pod.partition("/")[0] == namespace
