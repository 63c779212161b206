"""The result of placement: the nodes that have a Dataset, and the role of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain


class Role(StrEnum):
    """The role of a node that has a Dataset."""

    REPLICA = "replica"  # one of cache.replicas
    USER = "user"  # pods use it or wait for it there
    GUEST = "guest"  # like USER, on a node that cache.nodeSelector or a quota excludes: read through, not warmed
    IDLE = "idle"  # warm from earlier, kept until the room is needed
    LEAVING = "leaving"  # on a draining node: it gets nothing new and drops nothing


@dataclass(frozen=True)
class Placement:
    """The nodes of one Dataset. ``desired``: the wanted number of replicas."""

    roles: Mapping[str, Role] = field(default_factory=dict)
    desired: int = 0
    eligible: int = 0  # nodes that match the selector and are ready
    over_quota: str = ""  # why it is on fewer nodes than wanted, or keeps no data on some, due to its namespace's quota
    starved: frozenset[str] = frozenset()  # nodes where that quota allows no more data
    charged: int = 0  # bytes charged to that quota
    share: int | None = None  # the number for a percentage of nodes, if replicas are one
    share_limit: str = ""  # why that is less than the percentage
    adopted: frozenset[str] = frozenset()  # idle and leaving nodes whose data is known only from their reports

    def nodes(self, *roles: Role) -> tuple[str, ...]:
        """Return nodes with one of the roles, sorted."""
        found = [nodes for role in roles if (nodes := self._by_role.get(role))]
        if len(found) == 1:
            return found[0]
        if roles not in self._joined:
            self._joined[roles] = tuple(sorted(chain.from_iterable(found)))
        return self._joined[roles]

    @cached_property
    def _joined(self) -> dict[tuple[Role, ...], tuple[str, ...]]:
        """A cache of joined roles. It returns the same object, so callers can compare by identity."""
        return {}

    @cached_property
    def _by_role(self) -> Mapping[Role, tuple[str, ...]]:
        found: dict[Role, list[str]] = {}
        for node, role in self.roles.items():
            found.setdefault(role, []).append(node)
        return {role: tuple(sorted(nodes)) for role, nodes in found.items()}
