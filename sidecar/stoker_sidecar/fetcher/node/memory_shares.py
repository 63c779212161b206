"""How much memory the Datasets of a node may pin, their shares, and when to check again. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from stoker_api.meta import format_bytes
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures

# Of memory that a held name takes: inode, dentry and open file; 1.05 kB measured on ext4, and the inodes
# of other file systems differ.
NAME_BYTES = 1280
# Shares of the machine's memory, and of the free part of the sidecar's limit, to which the kernel charges pinned
# memory.
_SHARE, _SHARE_OF_LIMIT = 1 / 2, 3 / 4
# Available shares of the machine's memory. Below the first, pinning does not grow. Below the second, some is released,
# up to the first. The gap avoids oscillation.
_LEAST_TO_GROW, _LEAST_AVAILABLE = 0.15, 0.10
_STEADY = 0.05
# Minimum seconds between two sweeps of watched files, even if the kernel reclaims pages often.
SWEEP_SECONDS = 60.0


@dataclass(frozen=True)
class PinRoom:
    """Bytes that may be pinned on the node, and the reason if they are below the administrator's limit."""

    bytes: int
    why: str = ""


def pin_room(memory: MemoryFigures, allowed: int, pinned: int) -> PinRoom:
    """Return the room for pinned memory in total. ``pinned``: bytes pinned now."""
    if allowed <= 0:
        return PinRoom(0, "the node allows no pinned memory: set sidecar.memory.pinned in the chart")
    bounds = [
        PinRoom(allowed, f"sidecar.memory.pinned ({format_bytes(allowed)}) is shared by all Datasets of the node")
    ]
    bounds.append(
        PinRoom(int(memory.total * _SHARE), f"half of the node's memory ({format_bytes(memory.total)}) is the most")
    )
    if memory.limit is not None:
        limit = max(0, int((memory.limit - max(0, memory.bound)) * _SHARE_OF_LIMIT))
        bounds.append(
            PinRoom(
                limit,
                f"the sidecar's memory limit ({format_bytes(memory.limit)}) is exhausted: raise it with "
                "sidecar.memory.pinned",
            )
        )
    bounds.append(PinRoom(_available(memory, pinned), "the node is short of memory"))
    return min(bounds, key=lambda one: one.bytes)


def steady_room(now: PinRoom, before: PinRoom) -> PinRoom:
    """Return ``before`` if it hardly differs: small changes of the sidecar's memory must not move files."""
    return before if abs(now.bytes - before.bytes) <= before.bytes * _STEADY else now


def _available(memory: MemoryFigures, pinned: int) -> int:
    spare = memory.available - int(memory.total * _LEAST_TO_GROW)
    if spare < 0 and memory.available >= memory.total * _LEAST_AVAILABLE:
        return pinned
    return max(0, pinned + spare)


@dataclass(frozen=True)
class PinWish:
    """The memory that one Dataset wants for its files on the disk: bytes of names, and of contents."""

    namespace: str
    names: int = 0
    contents: int = 0

    @property
    def bytes(self) -> int:
        """Both together."""
        return self.names + self.contents


def fair_shares(room: int, wishes: Mapping[str, PinWish]) -> dict[str, int]:
    """Divide ``room`` bytes: first over namespaces, then over the Datasets of each.

    The result is by uid. Unused parts of a share go to the rest. The same wishes give the same shares. Many Datasets of
    one namespace get as much as a single one.
    """
    by_namespace: dict[str, dict[str, int]] = defaultdict(dict)
    for uid, wish in wishes.items():
        by_namespace[wish.namespace][uid] = wish.bytes
    rooms = _level(room, {name: sum(each.values()) for name, each in by_namespace.items()})
    return {uid: share for name, each in by_namespace.items() for uid, share in _level(rooms[name], each).items()}


def _level(room: int, needs: Mapping[str, int]) -> dict[str, int]:
    """Give each its need, or an equal part of the remaining room once smaller needs are met."""
    out, left = {}, max(0, room)
    for place, (name, need) in enumerate(sorted(needs.items(), key=lambda one: (one[1], one[0]))):
        out[name] = min(need, left // (len(needs) - place))
        left -= out[name]
    return out


def parts_of(share: int, wish: PinWish) -> tuple[int, int]:
    """Divide a Dataset's share into bytes for names, which are small and make each open faster, and for contents."""
    names = min(wish.names, share)
    return names, min(wish.contents, share - names)


@dataclass(frozen=True)
class ReclaimCounters:
    """Totals that the kernel reclaimed since the boot: pages of files, and names; -1: unknown."""

    pages: int = -1
    names: int = -1


def parse_reclaim(vmstat: str) -> ReclaimCounters:
    """Read /proc/vmstat. Its ``drop_`` counters count writes to drop_caches."""
    rows = {name: int(value) for name, value, *_ in (line.split() for line in vmstat.splitlines() if " " in line)}
    pages = [rows[name] for name in ("pgsteal_file", "drop_pagecache") if name in rows]
    names = [rows[name] for name in ("pginodesteal", "kswapd_inodesteal", "drop_slab") if name in rows]
    return ReclaimCounters(sum(pages) if pages else -1, sum(names) if names else -1)


def is_sweep_due(since: float, before: int, now: int) -> bool:
    """Return True if a sweep is due ``since`` seconds after the last one, by a reclaim counter then and now.

    Without a counter, a sweep is due each time.
    """
    return since >= SWEEP_SECONDS and (now < 0 or now != before)
