"""How warm nodes are for one choice of Datasets and versions, and which of them may be warmed for it."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stoker_api.dataset import Dataset
from stoker_operator.core.explain import NodeWarmth
from stoker_operator.core.node_bits import NodeNumbers, NodeSets, SetChanges
from stoker_operator.core.node_ring import distance, start_of
from stoker_operator.core.node_rules import NodeRule
from stoker_operator.core.views import NodeView
from stoker_operator.core.warmth import Warmth

# The warmest first, of equals the first on the ring: minus the share, how far it is on the ring, and the name.
_Rank = tuple[float, int, str]


class AllowedNodes(NodeSets):
    """Nodes that all of some Datasets may be warmed on."""

    SETS = ("allowed",)
    allowed: int

    def __init__(self, changes: SetChanges, datasets: Sequence[Dataset]) -> None:
        super().__init__(changes)
        # Most have no such rule: what is alike is asked once.
        rules = dict.fromkeys((NodeRule.of(one.spec.cache), frozenset(one.spec.warm.nodes)) for one in datasets)
        self._rules: Final = tuple(rules)

    def put(self, at: int, node: NodeView) -> None:
        """Take over a node."""
        allowed = ((not named or node.name in named) and rule.takes(node) for rule, named in self._rules)
        self.mark("allowed", at, all(allowed))


class NodeData(NodeSets):
    """The warmth of the nodes that hold some of the data, or are asked to.

    ``warm``: nodes that have enough; ``some``: nodes with less, and more than nothing; ``planned``: those that are
    asked for all of it.
    """

    SETS = ("warm", "some", "planned")
    warm: int
    some: int
    planned: int

    def __init__(self, changes: SetChanges, datasets: Sequence[Dataset], versions: Mapping[str, str]) -> None:
        super().__init__(changes)
        self.datasets: Final = tuple(datasets)
        self.versions: Final = dict(versions)
        self._known: Final[dict[str, NodeWarmth]] = {}
        self.start: Final = start_of(datasets)
        self._partial: Final[list[_Rank]] = []

    def of(self, node: str) -> NodeWarmth:
        """Return the warmth of a node that holds some of the data, or is asked to."""
        return self._known[node]

    def put(self, at: int | None, node: str, warmth: Warmth | None) -> None:
        """Take over a node's warmth; None: it holds nothing and is asked for nothing. ``at``: its number, if known."""
        known = self._known.pop(node, None)
        before = None if known is None else known.warmth
        if before is not None and _is_partial(before):
            del self._partial[bisect_left(self._partial, self._rank(node, before))]
        if warmth is not None:
            # One object, however many pods are let go to the node.
            self._known[node] = NodeWarmth(node, warmth)
            if _is_partial(warmth):
                insort(self._partial, self._rank(node, warmth))
        if before != warmth:
            self._changes.any = True
        if at is not None:
            self.mark("warm", at, warmth is not None and warmth.warm)
            self.mark("some", at, warmth is not None and _is_partial(warmth))
            self.mark("planned", at, warmth is not None and warmth.planned)

    def warmest(self, among: int, numbers: NodeNumbers) -> int | None:
        """Return the number of the warmest node of a set, of equals one that is planned, then the first on the ring."""
        warm = self.warm & among
        if not warm and self.some & among:
            return self._warmest_partial(among, numbers)
        equals = warm or among
        return next(numbers.from_start(self.start, equals & self.planned or equals), None)

    def partial(self, among: int, numbers: NodeNumbers) -> Iterator[tuple[float, int]]:
        """Yield share and number of each node of a set that has some of the data and not enough, the warmest first.

        Of equals the first on the ring comes first.
        """
        left = self.some & among
        for cold, _, name in self._partial:
            if not left:
                return
            at = numbers.find(name)
            if at is not None and left >> at & 1:
                left ^= 1 << at
                yield -cold, at

    def _warmest_partial(self, among: int, numbers: NodeNumbers) -> int | None:
        best: tuple[float, int] | None = None
        for share, at in self.partial(among, numbers):
            if best is not None and share < best[0]:
                break
            if self.planned >> at & 1:
                return at
            best = best or (share, at)
        return best[1] if best is not None else None

    def _rank(self, node: str, warmth: Warmth) -> _Rank:
        return -warmth.share, distance(self.start, node), node


def _is_partial(warmth: Warmth) -> bool:
    return not warmth.warm and warmth.share > 0
