"""Nodes where held pods could run next, which should have their data. Each place asks for as many nodes as it needs."""

from collections import defaultdict
from heapq import heapify, heappop, heappush

from stoker_operator.core.fitting.feasible_nodes import silent_until
from stoker_operator.core.fitting.node_bits import members
from stoker_operator.core.gating.gate_index import GateIndex
from stoker_operator.core.gating.pod_class import AskingOrder, PodClass
from stoker_operator.core.gating.releases import WantedNodes
from stoker_operator.core.views.resources import Resources


def find_wanted(index: GateIndex) -> WantedNodes:
    """Return the nodes that held pods need. Book room during the search, so that pods ask for enough nodes.

    Pods that may be released next ask first, because other controllers may hold the rest for hours. A place without
    room asks for one node, for any number of pods.
    """
    search = _WantedSearch(index)
    rooms = index.rooms()
    try:
        search.run()
    finally:
        index.restore(search.taken, rooms)
    return search.result()


class _WantedSearch:
    def __init__(self, index: GateIndex) -> None:
        self._index = index
        self.taken: list[tuple[Resources, str]] = []
        self._nodes: dict[str, set[str]] = defaultdict(set)
        self._versions: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
        self._silences: set[float] = set()

    def run(self) -> None:
        asking: list[tuple[AskingOrder, int, PodClass, list[str]]] = []
        for number, place in enumerate(self._index.places.values()):
            if place.asking and place.nodes.error is None:
                asking.append((place.asking[0], number, place, self._silent_holders(place)))
        turns = {number: 0 for _, number, _, _ in asking}
        heapify(asking)
        while asking:
            _, number, place, silent = heappop(asking)
            if node := self._take(place, silent):
                self._want(place, node)
                turns[number] += 1
                if turns[number] < len(place.asking):
                    heappush(asking, (place.asking[turns[number]], number, place, silent))
            elif anywhere := place.warmest(place.ranked, self._index.numbers):
                # No room anywhere: warm a node that the pods may use when room appears.
                self._want(place, anywhere)

    def result(self) -> WantedNodes:
        nodes = {key: frozenset(names) for key, names in self._nodes.items()}
        return WantedNodes(nodes, dict(self._versions), frozenset(self._silences))

    def _want(self, place: PodClass, node: str) -> None:
        for dataset in place.data.datasets:
            self._nodes[dataset.key].add(node)
            if older := place.data.versions.get(dataset.key, ""):
                versions = self._versions[dataset.key]
                versions[node] = versions.get(node, frozenset()) | {older}

    def _take(self, place: PodClass, silent: list[str]) -> str | None:
        requests = place.room.requests
        node = next((name for name in silent if self._index.capacity.fits(requests, name)), None)
        node = node or place.warmest(place.ranked & place.room.free, self._index.numbers)
        if node is not None:
            self._index.take(requests, node)
            self.taken.append((requests, node))
        return node

    def _silent_holders(self, place: PodClass) -> list[str]:
        """Return recently silent nodes that hold more data than any live node, warmest first.

        Waiting for them avoids a second download from the bucket.
        """
        data, numbers = place.data, self._index.numbers
        silent = place.nodes.silent & place.allowed.allowed & (data.warm | data.some)
        if not silent:
            return []
        best = data.warmest(place.ranked & (data.warm | data.some), numbers)
        least = 0.0 if best is None else data.of(numbers.names[best]).warmth.share
        shares = {name: data.of(name).warmth.share for name in map(numbers.names.__getitem__, members(silent))}
        found = sorted((name for name in shares if shares[name] > least), key=lambda name: (-shares[name], name))
        nodes = map(self._index.nodes.__getitem__, found)
        self._silences.update(until for node in nodes if (until := silent_until(node)) is not None)
        return found
