"""Possible nodes for identical pods, and the warmth of nodes for their Datasets. A decision on one pod covers all."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.fitting.capacity import PodRoom
from stoker_operator.core.fitting.feasible_nodes import FeasibleNodes
from stoker_operator.core.fitting.node_bits import NodeNumbers, NodeSets, SetChanges, distance, start_of
from stoker_operator.core.fitting.warmth import Warmth
from stoker_operator.core.gating.explain import NodeWarmth
from stoker_operator.core.placement.node_rules import NodeRule
from stoker_operator.core.views.cluster import NodeView

# The warmest first, then by ring: negative share, distance on the ring, and name.
_Rank = tuple[float, int, str]


class AllowedNodes(NodeSets):
    """Nodes on which all of some Datasets may be warmed."""

    SETS = ("allowed",)
    allowed: int

    def __init__(self, changes: SetChanges, datasets: Sequence[Dataset]) -> None:
        super().__init__(changes)
        # Most Datasets have the same rules, so check each rule once.
        rules = dict.fromkeys((NodeRule.of(one.spec.cache), frozenset(one.spec.warm.nodes)) for one in datasets)
        self._rules: Final = tuple(rules)

    def put(self, at: int, node: NodeView) -> None:
        """Update a node."""
        allowed = ((not named or node.name in named) and rule.takes(node) for rule, named in self._rules)
        self.mark("allowed", at, all(allowed))


class NodeData(NodeSets):
    """The warmth of nodes that hold or should hold some of the data.

    ``warm``: nodes that have enough. ``some``: nodes with less, but more than zero. ``planned``: nodes that should get
    all of it.
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
        """Return the warmth of a node that holds or should hold some of the data."""
        return self._known[node]

    def put(self, at: int | None, node: str, warmth: Warmth | None) -> None:
        """Update a node's warmth. None: it neither holds nor should hold data. ``at``: its number, if known."""
        known = self._known.pop(node, None)
        before = None if known is None else known.warmth
        if before is not None and _is_partial(before):
            del self._partial[bisect_left(self._partial, self._rank(node, before))]
        if warmth is not None:
            # One object for all pods that are released to the node.
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
        """Return the number of the warmest node of a set.

        Among equals prefer planned nodes, then the first on the ring.
        """
        warm = self.warm & among
        if not warm and self.some & among:
            return self._warmest_partial(among, numbers)
        equals = warm or among
        return next(numbers.from_start(self.start, equals & self.planned or equals), None)

    def partial(self, among: int, numbers: NodeNumbers) -> Iterator[tuple[float, int]]:
        """Yield share and number of each partly warm node of a set, warmest first.

        Among equals the first on the ring comes first.
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


Order = tuple[float, str]  # of a pod or group: creation time in seconds since the epoch, and key
# Order of a pod that asks for nodes: whether other controllers hold it, its group, and itself.
AskingOrder = tuple[bool, Order, Order]


class Queue(list[Order]):
    """Keys in order."""

    def put(self, order: Order) -> None:
        """Add a key that is not in the queue."""
        insort(self, order)

    def drop(self, order: Order) -> None:
        """Remove a key, if present."""
        at = bisect_left(self, order)
        if at < len(self) and self[at] == order:
            del self[at]


class PodClass:
    """Facts that hold for all held pods of the same Datasets, constraints and size, and the pods that wait."""

    def __init__(self, nodes: FeasibleNodes, room: PodRoom, data: NodeData, allowed: AllowedNodes) -> None:
        self.nodes: Final = nodes
        self.room: Final = room
        self.data: Final = data
        self.allowed: Final = allowed
        self.waiting: Final = Queue()  # pods without a gang that wait for warmth or room
        self.gangs: Final[set[str]] = set()  # gangs with a pod here that wait for warmth or room
        self.asking: Final[list[AskingOrder]] = []  # all held pods with a known demand
        self.told: tuple[bool, bool, bool] | None = None  # the facts in the last messages of waiting pods

    @property
    def parts(self) -> tuple[FeasibleNodes, PodRoom, NodeData]:
        """The inputs that decide about a place for a pod."""
        return self.nodes, self.room, self.data

    @property
    def used(self) -> bool:
        """True while a held pod belongs here."""
        return bool(self.asking)

    @property
    def options(self) -> int:
        """Warm nodes where a pod fits next to the bound pods.

        Pods without a node count only in bookings. If two pods may each go to either of two nodes, both pods must get
        both nodes. Otherwise the scheduler could put one pod on the only node of the other.
        """
        return self.data.warm & self.nodes.feasible & self.room.unbooked

    @property
    def open(self) -> int:
        """Warm nodes with room for a pod now."""
        return self.options & self.room.free

    @property
    def ranked(self) -> int:
        """Nodes that both the pods and the data may use."""
        return self.nodes.feasible & self.allowed.allowed

    @property
    def possible(self) -> bool:
        """True if some node could take a pod when empty."""
        return bool(self.nodes.feasible & self.room.empty)

    @property
    def warm_somewhere(self) -> bool:
        """True if a node that the pods may use is warm."""
        return bool(self.data.warm & self.nodes.feasible)

    def facts(self) -> tuple[bool, bool, bool]:
        """Return the facts in the messages of waiting pods."""
        return self.possible, self.warm_somewhere, self.nodes.error is not None

    def ask(self, order: AskingOrder) -> None:
        """Count a held pod."""
        insort(self.asking, order)

    def stop_asking(self, order: AskingOrder) -> None:
        """Stop counting a held pod."""
        del self.asking[bisect_left(self.asking, order)]

    def warmest(self, among: int, numbers: NodeNumbers) -> str | None:
        """Return the name of the warmest node of a set."""
        at = self.data.warmest(among, numbers)
        return None if at is None else numbers.names[at]
