"""Domains of nodes, such as zones, and replicas that spread over them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Final

from stoker_operator.core.views.cluster import NodeView

NO_DOMAIN = ""  # nodes without the label


@dataclass(frozen=True)
class Candidates:
    """The nodes to choose from, by domain. The nodes of a domain are read when its turn comes."""

    domains: Collection[str]
    nodes_of: Callable[[str], Collection[str]]
    rank: Callable[[str], Any]  # sort key, best first; constant during a choice
    accept: Callable[[str], bool] = lambda _: True  # takes a node; False if that fails


class TopologySpreading:
    """Replicas by domain. ``counts``: existing replicas. It must contain each domain that counts for the skew."""

    def __init__(self, counts: Mapping[str, int], most_skew: int) -> None:
        self._counts: Final = Counter(dict(counts))
        self._most_skew: Final = most_skew
        self._with: Final = Counter(counts.values())  # number of domains by replica count
        self._least: int = min(counts.values(), default=0)

    def choose(self, candidates: Candidates, most: int, *, strict: bool) -> list[str]:
        """Choose at most ``most`` nodes, in the order of choice.

        Take the best node of the domains that may have one more. If there are none and ``strict`` is False, take a
        domain with the fewest replicas.
        """
        return _Choice(self, candidates).run(most, strict=strict)

    def is_open(self, domain: str) -> bool:
        """Return True if a domain may have one more."""
        return domain != NO_DOMAIN and self._counts[domain] - self._least < self._most_skew

    def count(self, domain: str) -> int:
        """Return the replicas of a domain."""
        return self._counts[domain]

    def add(self, domain: str) -> bool:
        """Count one more replica. Return True if that may open other domains."""
        if domain not in self._counts:
            return False
        before = self._counts[domain]
        self._counts[domain] += 1
        self._with[before] -= 1
        self._with[before + 1] += 1
        grown = not self._with[self._least]
        while not self._with[self._least]:
            self._least += 1
        return grown


class _Choice:
    """A choice in progress: open domains by their best node, and closed domains by their count."""

    def __init__(self, spreading: TopologySpreading, candidates: Candidates) -> None:
        self._spreading: Final = spreading
        self._candidates: Final = candidates
        self._left: Final[dict[str, list[tuple[Any, str]]]] = {}  # heaps of domains that had a turn
        self._open: Final[list[tuple[Any, str]]] = []
        self._shut: Final[defaultdict[int, list[str]]] = defaultdict(list)

    def run(self, most: int, *, strict: bool) -> list[str]:
        """Choose nodes."""
        chosen: list[str] = []
        for each in self._candidates.domains if most > 0 else ():
            self._sort_in(each)
        while len(chosen) < most and (domain := self._next(strict=strict)) is not None:
            _, node = heappop(self._heap(domain))
            if self._candidates.accept(node):
                chosen.append(node)
                if self._spreading.add(domain):
                    self._reopen()
            self._sort_in(domain)
        return chosen

    def _next(self, *, strict: bool) -> str | None:
        if self._open:
            return heappop(self._open)[1]
        # Nodes without the label come last, because their location is unknown.
        for count in () if strict else sorted(self._shut):
            domains = [one for one in self._shut[count] if one != NO_DOMAIN and self._heap(one)]
            if domains:
                return self._take_shut(count, min(domains, key=lambda one: self._heap(one)[0]))
        if not strict and NO_DOMAIN in self._shut.get(0, ()) and self._heap(NO_DOMAIN):
            return self._take_shut(0, NO_DOMAIN)
        return None

    def _take_shut(self, count: int, domain: str) -> str:
        self._shut[count].remove(domain)
        if not self._shut[count]:
            del self._shut[count]
        return domain

    def _sort_in(self, domain: str) -> None:
        if not self._spreading.is_open(domain):
            self._shut[self._spreading.count(domain)].append(domain)
        elif heap := self._heap(domain):
            heappush(self._open, (heap[0][0], domain))

    def _reopen(self) -> None:
        for count in sorted(self._shut):
            for domain in [one for one in self._shut[count] if self._spreading.is_open(one)]:
                self._sort_in(self._take_shut(count, domain))

    def _heap(self, domain: str) -> list[tuple[Any, str]]:
        if domain not in self._left:
            self._left[domain] = [(self._candidates.rank(node), node) for node in self._candidates.nodes_of(domain)]
            heapify(self._left[domain])
        return self._left[domain]


class NodeDomains:
    """Nodes that may get a new Dataset, by the value of one label."""

    def __init__(self, key: str, nodes: Iterable[NodeView]) -> None:
        self._key: Final = key
        self._domain_of: Final[dict[str, str]] = {}
        self._nodes: Final[dict[str, set[str]]] = {}
        for node in nodes:
            self.put(node.name, node)

    @property
    def nodes(self) -> Mapping[str, set[str]]:
        """The names of the nodes by domain. No domain is empty."""
        return self._nodes

    def put(self, name: str, node: NodeView | None) -> bool:
        """Update a node. None: it may get nothing new. Return True if its domain changed."""
        before = self._domain_of.pop(name, None)
        after = None if node is None else domain_of(node, self._key)
        if before is not None and before != after:
            self._nodes[before].discard(name)
            if not self._nodes[before]:
                del self._nodes[before]
        if after is not None:
            self._domain_of[name] = after
            self._nodes.setdefault(after, set()).add(name)
        return before != after


def domain_of(node: NodeView | None, key: str) -> str:
    """Return the domain of a node, or NO_DOMAIN without the label."""
    return node.labels.get(key, NO_DOMAIN) if node is not None else NO_DOMAIN
