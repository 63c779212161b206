"""Which nodes hold a Dataset's replicas when these are to be spread over the domains of a topology."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from stoker_api.dataset import Dataset
from stoker_api.node_selection import TopologySpreadConstraint, UnsatisfiableConstraintAction
from stoker_operator.core.node_domains import domain_of
from stoker_operator.core.node_room import Selection
from stoker_operator.core.topology_spreading import NO_DOMAIN, Candidates, TopologySpreading


@dataclass(frozen=True)
class FreeNodes:
    """The nodes that may become replicas: ``users`` have it already, for their pods."""

    users: AbstractSet[str]
    is_free: Callable[[str], bool]  # of the others
    fits: Callable[[str], bool]
    rank: Callable[[str], Any]
    accept: Callable[[str], bool]  # makes one a replica; False where a quota does not let it


class ReplicaSpread:
    """One Dataset's constraint over the nodes of its selection."""

    def __init__(self, constraint: TopologySpreadConstraint, selection: Selection) -> None:
        self._key: Final = constraint.topology_key
        self._most_skew: Final = constraint.max_skew
        self._strict: Final = constraint.when_unsatisfiable is UnsatisfiableConstraintAction.DO_NOT_SCHEDULE
        self._selection: Final = selection

    def first(self, names: Sequence[str], silent: Callable[[str], bool]) -> list[str]:
        """Put nodes that are in their order so that the first of them are in as many domains as can be.

        So whoever keeps only some of them gives up no domain's last one without need. Those that are silent stay last.
        """
        by_domain = self._by_domain(name for name in names if not silent(name))
        counts = {domain: 0 for domain in by_domain if domain != NO_DOMAIN}
        places = {name: at for at, name in enumerate(names)}
        candidates = Candidates(by_domain, by_domain.__getitem__, places.__getitem__)
        first = TopologySpreading(counts, 1).choose(candidates, len(names), strict=False)
        chosen = frozenset(first)
        return [*first, *(name for name in names if name not in chosen)]

    def fill(self, replicas: AbstractSet[str], nodes: FreeNodes, missing: int) -> None:
        """Make ``missing`` more nodes replicas, or as many as the constraint lets be."""
        fresh, users = self._selection.domains(self._key), self._by_domain(nodes.users)
        domains = fresh.keys() | users.keys()
        counts = dict.fromkeys(domains, 0)
        for name in replicas:
            domain = self._domain(name)
            counts[domain] = counts.get(domain, 0) + 1
        counts.pop(NO_DOMAIN, None)
        spreading = TopologySpreading(counts, self._most_skew)
        taken = set[str]()

        def accept(name: str) -> bool:
            if nodes.accept(name):
                taken.add(name)
            return name in taken

        def all_of(domain: str) -> list[str]:
            free = (name for name in fresh.get(domain, ()) if nodes.is_free(name))
            return [name for name in (*users.get(domain, ()), *free) if name not in taken]

        def fitting_of(domain: str) -> list[str]:
            return [name for name in all_of(domain) if name in nodes.users or nodes.fits(name)]

        # Where a larger skew may be, it is better than a node without room.
        for nodes_of in (all_of,) if self._strict else (fitting_of, all_of):
            candidates = Candidates(domains, nodes_of, nodes.rank, accept)
            spreading.choose(candidates, missing - len(taken), strict=self._strict)

    def _by_domain(self, names: Iterable[str]) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in names:
            found.setdefault(self._domain(name), []).append(name)
        return found

    def _domain(self, name: str) -> str:
        return domain_of(self._selection.everywhere.get(name), self._key)


def spread_of(dataset: Dataset, selection: Selection) -> ReplicaSpread | None:
    """Return how a Dataset's replicas are spread; None where they are not, or are on all nodes that it may be on."""
    cache = dataset.spec.cache
    if cache.topology_spread is None or cache.replicas == "all" or dataset.spec.warm.nodes:
        return None
    return ReplicaSpread(cache.topology_spread, selection)
