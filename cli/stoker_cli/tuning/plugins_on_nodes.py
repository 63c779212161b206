"""What `stoker tuning plugins --nodes` shows: the plug-ins of the cluster's nodes, and what is wrong with one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeOrderPlugin, NodePlugin
from stoker_cli.output import printable

COLUMNS = ("NODE", "KIND", "PLUGIN", "FROM", "RULES", "TEMPLATES", "WRONG")


@dataclass(frozen=True)
class PluginOnNode:
    """A plug-in as one node has it."""

    node: str
    row: NodePlugin | NodeOrderPlugin

    @property
    def kind(self) -> str:
        """What it is for."""
        return "framework" if isinstance(self.row, NodePlugin) else "order"

    def words(self) -> tuple[str, ...]:
        """Return the cells of a line of the table."""
        row = self.row
        counts = (str(row.rules), str(row.templates)) if isinstance(row, NodePlugin) else ("", "")
        words = (self.node, self.kind, row.name, row.package, *counts, row.message)
        return tuple(printable(word) for word in words)

    def wire(self) -> dict[str, object]:
        """Return it as JSON."""
        return {"node": self.node, "kind": self.kind, **self.row.wire()}


def plugins_on_nodes(caches: Iterable[NodeCache]) -> Iterator[PluginOnNode]:
    """Yield the plug-ins of each node: those of frameworks that were asked, then order plug-ins that may be."""
    for cache in caches:
        rows: tuple[NodePlugin | NodeOrderPlugin, ...] = (*cache.status.plugins, *cache.status.order_plugins)
        for row in rows:
            yield PluginOnNode(cache.metadata.name, row)
