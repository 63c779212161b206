"""Chooses nodes so that replicas are spread over the domains of a topology, such as zones."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Final

NO_DOMAIN = ""  # of nodes without the label


@dataclass(frozen=True)
class Candidates:
    """The nodes among which is chosen, by domain; those of a domain are asked for when its turn comes."""

    domains: Collection[str]
    nodes_of: Callable[[str], Collection[str]]
    rank: Callable[[str], Any]  # what puts nodes in order, the best first: the same for as long as nodes are chosen
    accept: Callable[[str], bool] = lambda _: True  # takes a node; False where that cannot be after all


class TopologySpreading:
    """Replicas by domain. ``counts``: those that there are; each domain that counts for the skew must be in it."""

    def __init__(self, counts: Mapping[str, int], most_skew: int) -> None:
        self._counts: Final = Counter(dict(counts))
        self._most_skew: Final = most_skew
        self._with: Final = Counter(counts.values())  # how many domains have so many
        self._least: int = min(counts.values(), default=0)

    def choose(self, candidates: Candidates, most: int, *, strict: bool) -> list[str]:
        """Choose at most ``most`` nodes, in the order in which they are taken.

        The best first among the domains that may have one more; where there is none, and ``strict`` is False, those
        with the fewest.
        """
        return _Choice(self, candidates).run(most, strict=strict)

    def is_open(self, domain: str) -> bool:
        """Tell whether a domain may have one more."""
        return domain != NO_DOMAIN and self._counts[domain] - self._least < self._most_skew

    def count(self, domain: str) -> int:
        """Return how many a domain has."""
        return self._counts[domain]

    def add(self, domain: str) -> bool:
        """Count one more; True when that may have opened other domains."""
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
    """One choice under way: the domains that may have one more, by their best node, and the others by their number."""

    def __init__(self, spreading: TopologySpreading, candidates: Candidates) -> None:
        self._spreading: Final = spreading
        self._candidates: Final = candidates
        self._left: Final[dict[str, list[tuple[Any, str]]]] = {}  # heaps, of the domains whose turn came
        self._open: Final[list[tuple[Any, str]]] = []
        self._shut: Final[defaultdict[int, list[str]]] = defaultdict(list)

    def run(self, most: int, *, strict: bool) -> list[str]:
        """Choose."""
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
        # Those without the label last: nobody knows where they are.
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
