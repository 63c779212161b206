"""How much memory the Datasets of a node may keep to themselves, how it is shared, and when to look again. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from stoker_api.meta import format_bytes
from stoker_sidecar.fetcher.core.page_room import MemoryFigures

# Of memory that a held name takes: inode, dentry and open file; 1.05 kB measured on ext4, and the inodes
# of other file systems differ.
NAME_BYTES = 1280
# Of the machine's memory, and of what is left of the sidecar's own limit, to which the kernel counts what is pinned.
_SHARE, _SHARE_OF_LIMIT = 1 / 2, 3 / 4
# Of the machine's memory that is left available: nothing more is taken below the first, and some is given back below
# the second, up to the first. Between them nothing changes, or it would come and go.
_LEAST_TO_GROW, _LEAST_AVAILABLE = 0.15, 0.10
_STEADY = 0.05
# Seconds between two looks at what is watched, however often the kernel takes pages.
SWEEP_SECONDS = 60.0


@dataclass(frozen=True)
class PinRoom:
    """Bytes that may be pinned on the node, and what keeps them from being all that the administrator allows."""

    bytes: int
    why: str = ""


def pin_room(memory: MemoryFigures, allowed: int, pinned: int) -> PinRoom:
    """Return what may be pinned in all, where ``pinned`` is by now."""
    if allowed <= 0:
        return PinRoom(0, "the node lets nothing be pinned: have sidecar.memory.pinned set in the chart")
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
                f"the sidecar's memory limit ({format_bytes(memory.limit)}) holds no more: raise it with "
                "sidecar.memory.pinned",
            )
        )
    bounds.append(PinRoom(_available(memory, pinned), "the node is short of memory"))
    return min(bounds, key=lambda one: one.bytes)


def steady_room(now: PinRoom, before: PinRoom) -> PinRoom:
    """Return ``before`` where it hardly differs: the sidecar's own memory moves, and files should not with it."""
    return before if abs(now.bytes - before.bytes) <= before.bytes * _STEADY else now


def _available(memory: MemoryFigures, pinned: int) -> int:
    spare = memory.available - int(memory.total * _LEAST_TO_GROW)
    if spare < 0 and memory.available >= memory.total * _LEAST_AVAILABLE:
        return pinned
    return max(0, pinned + spare)


@dataclass(frozen=True)
class PinWish:
    """What one Dataset would keep in memory of what is on the disk: bytes of names, and of contents."""

    namespace: str
    names: int = 0
    contents: int = 0

    @property
    def bytes(self) -> int:
        """Both together."""
        return self.names + self.contents


def fair_shares(room: int, wishes: Mapping[str, PinWish]) -> dict[str, int]:
    """Divide ``room`` bytes: first over namespaces, then over the Datasets of each; who needs less leaves the rest.

    By uid. The same wishes give the same shares, and many Datasets of one namespace get no more than one.
    """
    by_namespace: dict[str, dict[str, int]] = defaultdict(dict)
    for uid, wish in wishes.items():
        by_namespace[wish.namespace][uid] = wish.bytes
    rooms = _level(room, {name: sum(each.values()) for name, each in by_namespace.items()})
    return {uid: share for name, each in by_namespace.items() for uid, share in _level(rooms[name], each).items()}


def _level(room: int, needs: Mapping[str, int]) -> dict[str, int]:
    """Give each what it needs, or an equal part of what is left when the smaller needs are met."""
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
    """What the kernel has taken back since the boot: pages of files, and names; -1: it does not say."""

    pages: int = -1
    names: int = -1


def parse_reclaim(vmstat: str) -> ReclaimCounters:
    """Read /proc/vmstat. Its ``drop_`` counters are of people who write to drop_caches."""
    rows = {name: int(value) for name, value, *_ in (line.split() for line in vmstat.splitlines() if " " in line)}
    pages = [rows[name] for name in ("pgsteal_file", "drop_pagecache") if name in rows]
    names = [rows[name] for name in ("pginodesteal", "kswapd_inodesteal", "drop_slab") if name in rows]
    return ReclaimCounters(sum(pages) if pages else -1, sum(names) if names else -1)


def is_sweep_due(since: float, before: int, now: int) -> bool:
    """Tell whether what is watched is to be looked at ``since`` seconds after the last time, by a counter then and now.

    Where the kernel counts nothing, every time.
    """
    return since >= SWEEP_SECONDS and (now < 0 or now != before)
