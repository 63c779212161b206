"""The answer of placement: which nodes have a dataset, and why each of them has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain


class Role(StrEnum):
    """Why a node has a dataset."""

    REPLICA = "replica"  # one of cache.replicas
    USER = "user"  # pods use it there, or wait for it there
    GUEST = "guest"  # as USER, on a node that cache.nodeSelector or a quota leaves out: read through, not warmed
    IDLE = "idle"  # warm from earlier, kept while nobody needs the room
    LEAVING = "leaving"  # on a node that is about to go: given nothing new, and nothing of it is dropped


@dataclass(frozen=True)
class Placement:
    """Where one dataset belongs. ``desired`` is the number of replicas that were asked for."""

    roles: Mapping[str, Role] = field(default_factory=dict)
    desired: int = 0
    eligible: int = 0  # nodes that match the selector and are ready
    over_quota: str = ""  # why it is on fewer nodes than asked for, or keeps nothing on some, by its namespace's quota
    starved: frozenset[str] = frozenset()  # nodes where it may keep nothing more, by that quota
    charged: int = 0  # bytes that count to that quota
    share: int | None = None  # what a percentage of the nodes came to, where replicas are one
    share_limit: str = ""  # why that is less than the percentage

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
        """What was asked for, put in order once: one object, by which others know that it is the same."""
        return {}

    @cached_property
    def _by_role(self) -> Mapping[Role, tuple[str, ...]]:
        found: dict[Role, list[str]] = {}
        for node, role in self.roles.items():
            found.setdefault(role, []).append(node)
        return {role: tuple(sorted(nodes)) for role, nodes in found.items()}
