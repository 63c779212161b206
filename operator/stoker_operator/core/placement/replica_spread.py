"""Choose nodes for a Dataset's replicas under a topology spread constraint."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.node_selection import TopologySpreadConstraint, UnsatisfiableConstraintAction
from stoker_operator.core.placement.node_room import Selection
from stoker_operator.core.placement.topology_spreading import NO_DOMAIN, Candidates, TopologySpreading, domain_of


@dataclass(frozen=True)
class FreeNodes:
    """The nodes that may become replicas. ``users`` already have the Dataset for their pods."""

    users: AbstractSet[str]
    is_free: Callable[[str], bool]  # for all other nodes
    fits: Callable[[str], bool]
    rank: Callable[[str], Any]
    accept: Callable[[str], bool]  # makes a node a replica; False if a quota prevents it


class ReplicaSpread:
    """One Dataset's constraint on the nodes of its selection."""

    def __init__(self, constraint: TopologySpreadConstraint, selection: Selection) -> None:
        self._key: Final = constraint.topology_key
        self._most_skew: Final = constraint.max_skew
        self._strict: Final = constraint.when_unsatisfiable is UnsatisfiableConstraintAction.DO_NOT_SCHEDULE
        self._selection: Final = selection

    def first(self, names: Sequence[str], silent: Callable[[str], bool]) -> list[str]:
        """Reorder ranked nodes so that the first ones cover as many domains as possible.

        If only some nodes are kept, no domain loses its last one without need. Silent nodes stay last.
        """
        by_domain = self._by_domain(name for name in names if not silent(name))
        counts = {domain: 0 for domain in by_domain if domain != NO_DOMAIN}
        places = {name: at for at, name in enumerate(names)}
        candidates = Candidates(by_domain, by_domain.__getitem__, places.__getitem__)
        first = TopologySpreading(counts, 1).choose(candidates, len(names), strict=False)
        chosen = frozenset(first)
        return [*first, *(name for name in names if name not in chosen)]

    def fill(self, replicas: AbstractSet[str], nodes: FreeNodes, missing: int) -> None:
        """Make ``missing`` more nodes replicas, or as many as the constraint allows."""
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

        # If the constraint is soft, a larger skew is better than a node without room.
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
    """Return the spread constraint of a Dataset. Return None without one, or if replicas are on all allowed nodes."""
    cache = dataset.spec.cache
    if cache.topology_spread is None or cache.replicas == "all" or dataset.spec.warm.nodes:
        return None
    return ReplicaSpread(cache.topology_spread, selection)
