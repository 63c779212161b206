"""Where held pods could run next, and so where their data is wanted: each place asks for as many nodes as it needs."""

from collections import defaultdict
from collections.abc import Generator
from heapq import heapify, heappop, heappush

from stoker_operator.core.feasible_nodes import silent_until
from stoker_operator.core.gate_index import GateIndex
from stoker_operator.core.node_bits import members
from stoker_operator.core.places import AskingOrder, Place
from stoker_operator.core.release_decisions import WantedNodes
from stoker_operator.core.resources import Resources


def find_wanted(index: GateIndex) -> Generator[None, None, WantedNodes]:
    """Work it out, in slices. Room is booked meanwhile, so that pods ask for as many nodes as they need.

    Those that may go next ask for nodes first: what other controllers hold may stay for hours. A place without any
    room is asked once, however many pods wait there.
    """
    search = _WantedSearch(index)
    rooms = index.rooms()
    try:
        yield from search.run()
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

    def run(self) -> Generator[None, None, None]:
        asking: list[tuple[AskingOrder, int, Place, list[str]]] = []
        for number, place in enumerate(self._index.places.values()):
            if place.asking and place.nodes.error is None:
                asking.append((place.asking[0], number, place, self._silent_holders(place)))
                yield
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
                # No room anywhere: warm up where the pods may go once there is.
                self._want(place, anywhere)
            yield

    def result(self) -> WantedNodes:
        nodes = {key: frozenset(names) for key, names in self._nodes.items()}
        return WantedNodes(nodes, dict(self._versions), frozenset(self._silences))

    def _want(self, place: Place, node: str) -> None:
        for dataset in place.data.datasets:
            self._nodes[dataset.key].add(node)
            if older := place.data.versions.get(dataset.key, ""):
                versions = self._versions[dataset.key]
                versions[node] = versions.get(node, frozenset()) | {older}

    def _take(self, place: Place, silent: list[str]) -> str | None:
        requests = place.room.requests
        node = next((name for name in silent if self._index.capacity.fits(requests, name)), None)
        node = node or place.warmest(place.ranked & place.room.free, self._index.numbers)
        if node is not None:
            self._index.take(requests, node)
            self.taken.append((requests, node))
        return node

    def _silent_holders(self, place: Place) -> list[str]:
        """Find nodes that are silent, not for long, and hold more than any that is not: the bucket is not asked twice.

        The warmest first.
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
