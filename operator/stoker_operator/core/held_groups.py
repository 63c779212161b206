"""Held pods grouped, as they come and go: those of a gang go together, all others alone."""

from dataclasses import dataclass, field
from typing import Final

from stoker_operator.core.places import Order
from stoker_operator.core.views import PodView


@dataclass
class Group:
    """Held pods that are released together; ``present``: members that exist, held or not.

    Members that run or have succeeded are present, so a pod that replaces a failed one goes by itself.
    """

    held: dict[str, PodView] = field(default_factory=dict)
    present: int = 0
    members: int = 0

    @property
    def pods(self) -> list[PodView]:
        """The held pods, oldest first."""
        return sorted(self.held.values(), key=order_of)

    @property
    def order(self) -> Order:
        """Whose turn it is: the oldest pod's."""
        return min(map(order_of, self.held.values()))

    @property
    def size(self) -> int:
        """Members expected."""
        return max((pod.gang_size for pod in self.held.values()), default=0)

    @property
    def other_gates(self) -> tuple[str, ...]:
        """The scheduling gates of other controllers that hold one of the pods still."""
        return tuple(sorted({gate for pod in self.held.values() for gate in pod.other_gates}))


class HeldGroups:
    """All groups with a held pod, and the gangs that have members of any kind."""

    def __init__(self) -> None:
        self._groups: Final[dict[str, Group]] = {}

    def get(self, key: str) -> Group | None:
        """Return a group that has a held pod."""
        group = self._groups.get(key)
        return group if group is not None and group.held else None

    def put(self, old: PodView | None, new: PodView | None) -> set[str]:
        """Take over a change of a pod; gives the keys of the groups for which that matters."""
        touched = set[str]()
        if old is not None and (key := group_key(old)):
            touched |= self._leave(key, old, replaced=new is not None and group_key(new) == key)
        if new is not None and (key := group_key(new)):
            touched |= self._join(key, new)
        return touched

    def _leave(self, key: str, pod: PodView, *, replaced: bool) -> set[str]:
        group = self._groups[key]
        group.members -= 1
        group.present -= _is_present(pod)
        group.held.pop(pod.key, None)
        if not group.members and not replaced:
            del self._groups[key]
        return {key}

    def _join(self, key: str, pod: PodView) -> set[str]:
        group = self._groups.setdefault(key, Group())
        group.members += 1
        group.present += _is_present(pod)
        if pod.gated:
            group.held[pod.key] = pod
        return {key}


def group_key(pod: PodView) -> str:
    """Name the group of a pod; empty for one that is in none: it is not held, and of no gang."""
    if pod.gang:
        return f"{pod.namespace}/gang/{pod.gang}"
    return f"{pod.key}/alone" if pod.gated else ""


def order_of(pod: PodView) -> Order:
    """Return whose turn it is: the oldest pod's."""
    return pod.created, pod.key


def _is_present(pod: PodView) -> bool:
    return pod.phase != "Failed" and not pod.deleting
