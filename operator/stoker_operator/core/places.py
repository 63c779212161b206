"""Where pods that are alike may go: they share a place, and one of them is decided for all."""

from bisect import bisect_left, insort
from typing import Final

from stoker_operator.core.feasible_nodes import FeasibleNodes
from stoker_operator.core.node_bits import NodeNumbers
from stoker_operator.core.node_data import AllowedNodes, NodeData
from stoker_operator.core.room import PodRoom

Order = tuple[float, str]  # of a pod or a group: when it was made in seconds since the epoch, and its key
# Of a pod that asks for nodes: whether other controllers hold it, its group, and itself.
AskingOrder = tuple[bool, Order, Order]


class Queue(list[Order]):
    """Keys in their order."""

    def put(self, order: Order) -> None:
        """Add one that is not there."""
        insort(self, order)

    def drop(self, order: Order) -> None:
        """Take one away, if it is there."""
        at = bisect_left(self, order)
        if at < len(self) and self[at] == order:
            del self[at]


class Place:
    """What is true for all held pods of the same Datasets, constraints and size, and who of them waits for it."""

    def __init__(self, nodes: FeasibleNodes, room: PodRoom, data: NodeData, allowed: AllowedNodes) -> None:
        self.nodes: Final = nodes
        self.room: Final = room
        self.data: Final = data
        self.allowed: Final = allowed
        self.waiting: Final = Queue()  # pods of no gang that wait for warmth or room
        self.gangs: Final[set[str]] = set()  # those with a pod here that wait for warmth or room
        self.asking: Final[list[AskingOrder]] = []  # all held pods whose demand is known
        self.told: tuple[bool, bool, bool] | None = None  # what those that wait were last told

    @property
    def parts(self) -> tuple[FeasibleNodes, PodRoom, NodeData]:
        """What a place for a pod depends on."""
        return self.nodes, self.room, self.data

    @property
    def used(self) -> bool:
        """True while a held pod belongs here."""
        return bool(self.asking)

    @property
    def options(self) -> int:
        """Warm nodes where a pod fits beside what is bound there.

        Pods on their way are not counted here, only in the booking: two pods that may each go to either of two nodes
        must both be given both, or the scheduler could put one where only the other may go.
        """
        return self.data.warm & self.nodes.feasible & self.room.unbooked

    @property
    def open(self) -> int:
        """Warm nodes with room for a pod now."""
        return self.options & self.room.free

    @property
    def ranked(self) -> int:
        """Nodes that the pods may run on and the data may be on."""
        return self.nodes.feasible & self.allowed.allowed

    @property
    def possible(self) -> bool:
        """Tell whether some node could take a pod, were it empty."""
        return bool(self.nodes.feasible & self.room.empty)

    @property
    def warm_somewhere(self) -> bool:
        """Tell whether a node that the pods may run on is warm."""
        return bool(self.data.warm & self.nodes.feasible)

    def facts(self) -> tuple[bool, bool, bool]:
        """Return what those that wait are told of."""
        return self.possible, self.warm_somewhere, self.nodes.error is not None

    def ask(self, order: AskingOrder) -> None:
        """Count a held pod."""
        insort(self.asking, order)

    def stop_asking(self, order: AskingOrder) -> None:
        """Count it no more."""
        del self.asking[bisect_left(self.asking, order)]

    def warmest(self, among: int, numbers: NodeNumbers) -> str | None:
        """Return the name of the warmest node of a set."""
        at = self.data.warmest(among, numbers)
        return None if at is None else numbers.names[at]
