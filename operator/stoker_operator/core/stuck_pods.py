"""Released pods that the scheduler cannot place: who wrote them a node affinity tells what became of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from stoker_operator.core.affinity import required_terms
from stoker_operator.core.views import PodView

# Seconds: room that is made by preemption, or by a pod that ends, comes within these.
STUCK_SECONDS = 60.0
_SHOWN = 600  # characters of the scheduler's message, which names each reason with a count of nodes


@dataclass(frozen=True)
class StuckPod:
    """A released pod that no node takes, and the sentence for its owner."""

    pod: PodView
    sentence: str


def find_stuck(pods: Iterable[PodView], now: float) -> tuple[tuple[StuckPod, ...], float | None]:
    """Find the pods that are stuck, and the seconds until another one may be; None when none is on the way there."""
    waiting = [pod for pod in pods if is_refused(pod)]
    stuck = tuple(StuckPod(pod, _sentence(pod)) for pod in waiting if _due(pod) <= now)
    return stuck, min((_due(pod) - now for pod in waiting if _due(pod) > now), default=None)


def is_refused(pod: PodView) -> bool:
    """Tell whether the scheduler finds no node for a released pod."""
    return bool(pod.unschedulable and pod.released) and not (pod.node or pod.gated or pod.finished or pod.deleting)


def _due(pod: PodView) -> float:
    return pod.unschedulable_since + STUCK_SECONDS


def _sentence(pod: PodView) -> str:
    said = f"it was released, and the scheduler finds no node for it: {pod.unschedulable[:_SHOWN]}"
    if required_terms(pod.affinity) is None:
        return said
    return (
        f"{said}. Its required node affinity cannot be loosened any more: make room on the nodes that it names, or "
        "delete the pod, so that its controller makes it anew and other nodes are chosen"
    )
