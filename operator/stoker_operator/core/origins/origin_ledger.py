"""The share of each node in each capped origin.

The ledger persists across passes, so a report costs only its own rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from stoker_api.datasets.origin import MOST_ORIGINS, NodeOrigin, OriginNames, OriginShare, endpoint_of, origin_names
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import parse_time
from stoker_operator.core.changed_keys import changed_keys
from stoker_operator.core.origins.origin_division import Amounts, CapDivision, level_for, part_of, to_share
from stoker_operator.core.origins.origin_policy import CALM, NO_CAP, Cap, OriginPolicy, Slowdown

# Hundredths of a cap. The first is for fetching nodes. The second is for idle nodes, until the operator sees them
# fetch. Two are spare for the moments in which nodes start.
FETCHING, _BEGINNING = 90, 8
# Shares decided a second, so that a SlowDown in a cluster of thousands makes no long pass. The operator's write budget
# is lower.
_WRITES, _MOST_SAVED = 40.0, 80.0
_AGAIN = 1.0  # seconds until a missing share is tried again
_MOST_BUCKETS = 4 * MOST_ORIGINS  # buckets of one node whose last SlowDown is remembered
_RECENT = 60.0  # seconds: a new leader ignores older SlowDowns, because the last leader handled them
_Rates = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OriginShares:
    """The shares that nodes get.

    For origins in ``beginning``, fetching nodes have larger shares. For all remaining origins only fetching nodes have
    a limit. ``slowed``: buckets that sent a SlowDown lately. ``look_again``: seconds since the epoch when the shares
    may change.
    """

    beginning: Mapping[str, OriginShare] = field(default_factory=dict)
    by_node: Mapping[str, Mapping[str, OriginShare]] = field(default_factory=dict)
    slowed: frozenset[str] = frozenset()
    look_again: float | None = None

    def limits(self, node: str) -> bool:
        """Return True if a node may have a share."""
        return bool(self.beginning) or node in self.by_node

    def rows(self, node: str, names: frozenset[str]) -> tuple[OriginShare, ...]:
        """Return the shares of a node with sources of these origins."""
        own = self.by_node.get(node, {})
        found = {**self.beginning, **own}
        return tuple(found[name] for name in sorted(found) if name in names)


NO_SHARES = OriginShares()


class OriginFigures(NamedTuple):
    """One origin, for metrics: what its ``nodes`` that fetch may use together, a second."""

    name: str
    nodes: int
    bytes: int
    milli_requests: int


class OriginLedger:
    """All origins with a cap of the administrator or with a SlowDown that nodes reported."""

    def __init__(self, policy: OriginPolicy) -> None:
        self._policy: Final = policy
        self._divisions: Final = {name: CapDivision(FETCHING, cap=cap) for name, cap in policy.by_name.items()}
        self._slowdowns: Final[dict[str, Slowdown]] = {}
        self._caches: Mapping[str, NodeCache] = {}
        self._fetching: Final[dict[str, frozenset[str]]] = {}  # origins that each node asks
        self._rates: Final[dict[str, dict[str, _Rates]]] = {}  # of buckets, by node
        self._throttled: Final[dict[str, dict[str, str]]] = {}  # time of the last SlowDown, by node and bucket
        self._level = 1
        self._beginning: Mapping[str, OriginShare] = MappingProxyType({})
        self._by_node: Final[dict[str, Mapping[str, OriginShare]]] = {}
        self._shown = NO_SHARES
        self._writes, self._written = _MOST_SAVED, 0.0
        self.slowdowns = 0  # counted since the start

    def update(self, caches: Mapping[str, NodeCache], now: float) -> OriginShares:
        """Record the nodes' reports. Return the same object as before if no share changes."""
        changed = set[str]()
        if self._relevel(len(caches)):
            changed |= self._by_node.keys()
        for node in changed_keys(self._caches, caches):
            cache = caches.get(node)
            if cache is None:
                self._forget(node)
                changed.add(node)
            else:
                self._take(node, cache, now)
        self._caches = caches
        for name in list(self._slowdowns):
            changed |= self._calm(name, now)
        changed |= self._give(now)
        self._show(changed, now)
        return self._shown

    def figures(self) -> tuple[OriginFigures, ...]:
        """Return the origins with an administrator's cap, by name."""
        named = ((name, self._divisions[name]) for name in sorted(self._policy.by_name))
        return tuple(OriginFigures(name, one.fetching, *one.held) for name, one in named)

    # Reports of nodes

    def _take(self, node: str, cache: NodeCache, now: float) -> None:
        reports = _assigned(cache)
        asked = frozenset(name for row in reports if row.fetching for name in _names(row.name))
        before, self._fetching[node] = self._fetching.get(node, frozenset()), asked
        for row in reports:
            self._measure(node, row)
        self._unmeasure(node, {row.name for row in reports})
        for row in reports:
            self._listen(node, row, now)
        told = {row.name: (row.bytes_per_second, row.milli_requests_per_second) for row in cache.spec.origins}
        confirmed = cache.status.observed_generation >= cache.metadata.generation
        for name in before | asked | told.keys() | self._told_before(node):
            if (division := self._divisions.get(name)) is not None:
                division.note(node, fetching=name in asked, told=told.get(name), confirmed=confirmed, now=now)

    def _told_before(self, node: str) -> set[str]:
        """Return the origins in a node's previous NodeCache. A removed origin is a change too."""
        cache = self._caches.get(node)
        return {row.name for row in cache.spec.origins} if cache is not None else set()

    def _listen(self, node: str, row: NodeOrigin, now: float) -> None:
        """Handle a SlowDown that is new for this node. Ignore old ones that an earlier leader saw."""
        told, known_of = row.throttled_at, self._throttled.get(node, {})
        if told is None or known_of.get(row.name) == told:
            return
        known_of = self._throttled.setdefault(node, known_of)
        known_of[row.name] = told
        if len(known_of) > _MOST_BUCKETS:  # a node may name new buckets each time: forget the oldest
            del known_of[next(iter(known_of))]
        if node not in self._caches and parse_time(told) <= now - _RECENT:
            return
        own = self._policy.by_name.get(row.name, NO_CAP)
        known = self._slowdowns.get(row.name)
        if known is None:
            self._slowdowns[row.name] = Slowdown.begun(self._measured(row.name), own, now)
            self._begin_division(row.name)
        elif not known.again(now):
            return
        self.slowdowns += 1
        self._divisions[row.name].set_cap(self._slowdowns[row.name].cap(own))

    def _begin_division(self, name: str) -> None:
        if name in self._divisions:
            return
        division = self._divisions[name] = CapDivision(100, strict=False)
        for node, asked in self._fetching.items():
            if name in asked:
                division.note(node, fetching=True, told=None, confirmed=False, now=0.0)

    def _calm(self, name: str, now: float) -> set[str]:
        """Raise the rate of a slowed bucket again. Return the nodes that lose their share in it."""
        slowdown, division = self._slowdowns[name], self._divisions[name]
        own = self._policy.by_name.get(name, NO_CAP)
        if not division.behind:
            slowdown.rise(now)
        if not slowdown.is_over(own):
            division.set_cap(slowdown.cap(own))
            return set()
        del self._slowdowns[name]
        if name in self._policy.by_name:
            division.set_cap(own)
            return set()
        return set(self._divisions.pop(name).given)

    def _measure(self, node: str, row: NodeOrigin) -> None:
        rates = (row.bytes_per_second, row.milli_requests_per_second)
        if any(rates):
            self._rates.setdefault(row.name, {})[node] = rates
        elif row.name in self._rates:
            self._drop_rate(node, row.name)

    def _unmeasure(self, node: str, said: set[str]) -> None:
        before = self._caches.get(node)
        for row in _assigned(before) if before is not None else ():
            if row.name not in said:
                self._drop_rate(node, row.name)

    def _drop_rate(self, node: str, name: str) -> None:
        rates = self._rates.get(name, {})
        rates.pop(node, None)
        if not rates:
            self._rates.pop(name, None)

    def _measured(self, name: str) -> Cap:
        rates = self._rates.get(name, {}).values()
        return Cap(sum(size for size, _ in rates), sum(requests for _, requests in rates))

    def _forget(self, node: str) -> None:
        self._fetching.pop(node, None)
        self._throttled.pop(node, None)
        self._unmeasure(node, set())
        for division in self._divisions.values():
            division.forget(node)

    # Shares of nodes

    def _relevel(self, nodes: int) -> bool:
        """Follow the number of nodes. Return True if the amount that every node may begin with changed."""
        level = level_for(max(1, nodes), self._level)
        if level == self._level and len(self._beginning) == len(self._policy.by_name):
            return False
        self._level = level
        for name, cap in self._policy.by_name.items():
            self._divisions[name].beginning = part_of(cap, _BEGINNING, level)
        begun = ((name, self._divisions[name].beginning) for name in self._policy.by_name)
        self._beginning = MappingProxyType({name: to_share(name, amounts, amounts) for name, amounts in begun})
        return True

    def _begins_with(self, name: str) -> Amounts:
        """Return what every node may use without a share. Without an administrator's cap it is unknown."""
        return self._divisions[name].beginning if name in self._beginning else (None, None)

    def _give(self, now: float) -> set[str]:
        self._writes = min(_MOST_SAVED, self._writes + max(0.0, now - self._written) * _WRITES)
        self._written, changed = now, set[str]()
        for division in self._divisions.values():
            division.settle_old(now)
            changed |= division.step(max(0, int(self._writes) - len(changed)), now)
        self._writes -= len(changed)
        return changed

    def _show(self, changed: set[str], now: float) -> None:
        for node in changed:
            rows = {
                name: to_share(name, division.given[node], self._begins_with(name))
                for name, division in self._divisions.items()
                if node in division.given
            }
            if rows:
                self._by_node[node] = MappingProxyType(rows)
            else:
                self._by_node.pop(node, None)
        slowed, old = frozenset(self._slowdowns), self._shown
        behind = any(division.behind for division in self._divisions.values())
        look = now + _AGAIN if behind else min((one.raised + CALM for one in self._slowdowns.values()), default=None)
        by_node = MappingProxyType(dict(self._by_node)) if changed else old.by_node
        new = OriginShares(self._beginning, by_node, slowed, look)
        same = not changed and (old.beginning, old.slowed, old.look_again) == (self._beginning, slowed, look)
        self._shown = old if same else new


def _assigned(cache: NodeCache) -> Sequence[NodeOrigin]:
    """Return a node's reports about buckets of its own Datasets. Ignore its other reports."""
    if not cache.status.origins:
        return ()
    named = (origin_names(entry.source) for entry in cache.spec.datasets if not entry.adopted)
    buckets = {one.bucket for one in named if one is not None}
    return [row for row in cache.status.origins if row.name in buckets]


def _names(bucket: str) -> tuple[str, ...]:
    return OriginNames(bucket, endpoint_of(bucket)).all
