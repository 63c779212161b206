"""Held pods grouped: those of a gang go together, all others alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from stoker_operator.core.views import PodView


@dataclass(frozen=True)
class Group:
    """Held pods that are released together.

    ``present``: members that exist, held or not; ``size``: members expected.
    """

    pods: tuple[PodView, ...]
    present: int
    size: int

    @property
    def other_gates(self) -> tuple[str, ...]:
        """The scheduling gates of other controllers that hold one of the pods still."""
        return tuple(sorted({gate for pod in self.pods for gate in pod.other_gates}))


def groups_of(pods: Iterable[PodView]) -> list[Group]:
    """Return groups of all held pods, oldest first.

    Members that run or have succeeded count as present, so a pod that replaces a failed one goes by itself.
    """
    present: Counter[str] = Counter()
    held: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if not pod.gang and not pod.gated:
            continue
        key = f"{pod.namespace}/gang/{pod.gang}" if pod.gang else f"{pod.key}/alone"
        present[key] += pod.phase != "Failed" and not pod.deleting
        if pod.gated:
            held[key].append(pod)
    groups = [_group(members, present[key]) for key, members in held.items()]
    return sorted(groups, key=lambda group: (group.pods[0].created, group.pods[0].key))


def _group(members: list[PodView], present: int) -> Group:
    members.sort(key=lambda pod: (pod.created, pod.key))
    return Group(tuple(members), present, max((pod.gang_size for pod in members), default=0))
