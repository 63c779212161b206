"""Free capacity of nodes: as it is, and less what pods on their way there will take."""

from collections.abc import Iterable, Mapping, Sequence

from stoker_operator.core.resources import Resources
from stoker_operator.core.views import NodeView, PodView


class FreeCapacity:
    """What is left on each node; ``take`` books a pod. Lives for one pass of the gating.

    ``bookings``: the nodes to one of which a released pod is on its way, by the pod's UID.
    """

    def __init__(
        self, nodes: Mapping[str, NodeView], pods: Iterable[PodView], bookings: Mapping[str, Sequence[str]]
    ) -> None:
        self._free = {name: node.allocatable for name, node in nodes.items()}
        on_their_way: list[PodView] = []
        for pod in pods:
            if pod.finished:
                continue
            if pod.node in self._free:
                self._book(pod.node, pod.requests)
            elif not pod.node and pod.uid in bookings and not pod.gated:
                on_their_way.append(pod)
        self._unbooked = dict(self._free)
        for pod in on_their_way:
            self.take(pod, bookings[pod.uid])

    def fits(self, pod: PodView, node: str) -> bool:
        """Tell whether the node has room for the pod now."""
        return node in self._free and self._free[node].covers(pod.requests)

    def fits_unbooked(self, pod: PodView, node: str) -> bool:
        """Tell whether the node has room when only pods that are already bound to it count."""
        return node in self._unbooked and self._unbooked[node].covers(pod.requests)

    def take(self, pod: PodView, nodes: Sequence[str]) -> str | None:
        """Book ``pod`` on the first of ``nodes`` with room; None when there is none."""
        chosen = next((node for node in nodes if self.fits(pod, node)), None)
        if chosen is not None:
            self._book(chosen, pod.requests)
        return chosen

    def give_back(self, pod: PodView, node: str) -> None:
        """Undo a ``take``."""
        self._free[node] = self._free[node].plus(pod.requests)

    def _book(self, node: str, requests: Resources) -> None:
        self._free[node] = self._free[node].minus(requests)
