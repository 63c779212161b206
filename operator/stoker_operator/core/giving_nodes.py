"""Which nodes give a Dataset to those that are to have it, beside these themselves: they fetch no more of it. Pure.

Nodes that are about to go give whatever they have. Idle data is asked for while it is hardly anywhere else, on a few
nodes: each of them is told of the others when that begins, and once more when it ends.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from stoker_operator.core.manifest_hosts import known_address
from stoker_operator.core.nearness import site_by
from stoker_operator.core.node_roles import Placement, Role
from stoker_operator.core.node_states import NOWHERE, NodeState
from stoker_operator.core.views import ClusterView
from stoker_operator.core.warm_parts import part_of

# Nodes with idle data: two give as fast as a node takes, and those that are to have it give what came to each other.
_MOST_IDLE = 4
_ENOUGH = 2  # of those that are to have it: one may be down, two at once are rare
_LOOKED_AT = 100  # nodes for the zones in which it is to be: of thousands these are in all of them
_NUMBER = 8  # bytes

Held = Mapping[str, NodeState]


class GivingNodes(NamedTuple):
    """Nodes that give, and take nothing. ``whole``: one of them has all that the others are to have."""

    leaving: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    whole: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.leaving, *self.idle)


NO_GIVERS = GivingNodes()


def find_giving_nodes(view: ClusterView, placement: Placement, held: Held, version: str) -> GivingNodes:
    """Return who gives a Dataset; ``held``: what nodes have of it, ``version``: that is to be had."""
    leaving = tuple(node for node in placement.nodes(Role.LEAVING) if held.get(node, NOWHERE).warm_bytes > 0)
    idle = _idle(view, placement, held, version)
    whole = bool(idle) or any(_has_all(held[node], version) for node in leaving)
    return GivingNodes(leaving, idle, whole)


def _idle(view: ClusterView, placement: Placement, held: Held, version: str) -> tuple[str, ...]:
    """Choose among nodes that have all of it from earlier: first such as stand where it is to be, then by hash.

    So others that come and go mostly change nothing.
    """
    idle = placement.nodes(Role.IDLE)
    if not idle or not version:
        return ()
    placed = placement.nodes(Role.REPLICA, Role.USER)
    if not _is_scarce(view, placed, held, version):
        return ()
    zones = {_zone(view, node) for node in islice(placed, _LOOKED_AT)}
    near, far = list[str](), list[str]()
    for node in sorted(idle, key=_number):
        if _has_all(held.get(node, NOWHERE), version) and _answers(view, node):
            (near if _zone(view, node) in zones else far).append(node)
            if len(near) == _MOST_IDLE:
                break
    return tuple(sorted([*near, *far][:_MOST_IDLE]))


def _is_scarce(view: ClusterView, placed: Sequence[str], held: Held, version: str) -> bool:
    """Tell whether a node that is to have it lacks some of it, and few of the others could give it all."""
    lacking, whole = False, 0
    for node in placed:
        if not _has_all(held.get(node, NOWHERE), version):
            lacking = True
        elif _answers(view, node) and (whole := whole + 1) == _ENOUGH:
            return False
    return lacking


def _has_all(state: NodeState, version: str) -> bool:
    """Tell whether a node has all that is to be warmed of a version, whether it was to fetch that or not."""
    row, desired = state.reported, state.desired
    if row is None or desired is None or row.version != version:
        return False
    part = part_of(row, desired.warm_paths)
    return state.done or (part is not None and 0 < part.files <= part.warm_files)


def _answers(view: ClusterView, node: str) -> bool:
    found, cache = view.nodes.get(node), view.node_caches.get(node)
    return found is not None and found.ready and cache is not None and known_address(cache.status.address)


def _zone(view: ClusterView, node: str) -> str:
    found = view.nodes.get(node)
    return site_by(found.labels, "").zone if found is not None else ""


@lru_cache(maxsize=1 << 14)
def _number(node: str) -> bytes:
    return blake2b(node.encode(), digest_size=_NUMBER).digest()
