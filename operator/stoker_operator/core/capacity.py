"""Free capacity of nodes: as it is, and less what pods on their way there will take."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from stoker_api.release import ReleaseRecord
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import NodeView, PodView


class FreeCapacity:
    """What is left on each node; ``take`` books a pod. Lives for one pass of the gating."""

    def __init__(self, nodes: Mapping[str, NodeView], pods: Iterable[PodView]) -> None:
        self._free = {name: node.allocatable for name, node in nodes.items()}
        on_their_way: list[PodView] = []
        for pod in pods:
            if pod.finished:
                continue
            if pod.node in self._free:
                self._book(pod.node, pod.requests)
            elif not pod.node and pod.released and not pod.gated:
                on_their_way.append(pod)
        self._unbooked = dict(self._free)
        for pod in on_their_way:
            self.take(pod, released_nodes(pod))

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


def released_nodes(pod: PodView) -> tuple[str, ...]:
    """Return the nodes that a released pod was sent to, best first; () when its annotation is missing or not ours."""
    try:
        return tuple(node.name for node in ReleaseRecord.model_validate_json(pod.released).nodes)
    except ValidationError:
        return ()
