"""What nodes say of a Dataset's memory -> the conditions MemoryPinned and PagesWarm."""

from collections.abc import Iterable, Mapping

from stoker_api.cache_memory import CacheMemory, PinnedMemory, WarmedPages
from stoker_api.meta import format_bytes
from stoker_api.names import Reason

_NODES_NAMED = 3


def asks_for_memory(memory: CacheMemory) -> bool:
    """Tell whether a Dataset asks for anything."""
    return memory.names or bool(memory.bytes)


def memory_verdict(rows: Mapping[str, PinnedMemory]) -> tuple[bool, Reason, str]:
    """Return status, reason and sentence for what nodes, by name, keep in memory."""
    short = {node: row.message for node, row in sorted(rows.items()) if row.message}
    if short:
        return False, Reason.MEMORY_SHORT, _listed(f"{node}: {why}" for node, why in short.items())
    used = [row for row in rows.values() if row.wanted_bytes or row.wanted_names]
    if not used:
        return False, Reason.MEMORY_NOT_USED, "it is kept in memory on nodes where a pod has it mounted; none has"
    held, names = sum(row.bytes for row in used), sum(row.names for row in used)
    wanted, wanted_names = sum(row.wanted_bytes for row in used), sum(row.wanted_names for row in used)
    figures = [
        f"{format_bytes(held)} of {format_bytes(wanted)}" if wanted else "",
        f"{names:,} of {wanted_names:,} names" if wanted_names else "",
    ]
    nodes = "1 node" if len(used) == 1 else f"{len(used)} nodes"
    whole = held >= wanted and names >= wanted_names
    reason = Reason.MEMORY_PINNED if whole else Reason.WARMING
    return whole, reason, f"{' and '.join(filter(None, figures))} in the memory of {nodes}"


def _listed(sentences: Iterable[str]) -> str:
    every = list(sentences)
    more = f"; and {len(every) - _NODES_NAMED} more nodes" if len(every) > _NODES_NAMED else ""
    return "; ".join(every[:_NODES_NAMED]) + more


def pages_verdict(request: str, rows: Mapping[str, WarmedPages | None]) -> tuple[bool, Reason, str]:
    """Return status, reason and sentence for the page cache of the nodes that should have it filled, by name."""
    done = [row for row in rows.values() if row is not None and row.done and row.request == request]
    total, there = sum(row.bytes for row in done), sum(row.read_bytes for row in done)
    short = "; the nodes' memory has no room for the rest" if there < total else ""
    figures = (
        f"{len(done)} of {len(rows)} nodes, {format_bytes(there)} of {format_bytes(total)} in the page cache{short}"
    )
    whole = bool(rows) and len(done) == len(rows)
    return whole, Reason.PAGES_WARM if whole else Reason.WARMING, figures
