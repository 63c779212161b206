"""Choose the nodes that serve a Dataset to its placed nodes without fetching it themselves. Pure.

Draining nodes serve everything that they have. A few nodes with idle data serve while placed nodes lack copies. Each
placed node gets two updates: when that starts and when it ends.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from stoker_operator.core.peers.nearness import site_by
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.plans.manifest_hosts import known_address
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NOWHERE, NodeState, part_of

# Nodes with idle data. Two serve as fast as one node takes, and placed nodes pass pieces to each other.
_MOST_IDLE = 4
_ENOUGH = 2  # complete placed nodes: one may be down, two at once are rare
_LOOKED_AT = 100  # placed nodes to check for zones: these many cover all zones
_NUMBER = 8  # bytes

Held = Mapping[str, NodeState]


class GivingNodes(NamedTuple):
    """Nodes that serve data and fetch nothing. ``whole``: one of them has everything that placed nodes need."""

    leaving: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    whole: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of these nodes."""
        return (*self.leaving, *self.idle)


NO_GIVERS = GivingNodes()


def find_giving_nodes(view: ClusterView, placement: Placement, held: Held, version: str) -> GivingNodes:
    """Return the nodes that serve a Dataset.

    ``held``: the data on each node. ``version``: the version that nodes need.
    """
    leaving = tuple(node for node in placement.nodes(Role.LEAVING) if held.get(node, NOWHERE).sure_bytes > 0)
    idle = _idle(view, placement, held, version)
    whole = bool(idle) or any(_has_all(held[node], version) for node in leaving)
    return GivingNodes(leaving, idle, whole)


def _idle(view: ClusterView, placement: Placement, held: Held, version: str) -> tuple[str, ...]:
    """Choose nodes that have a complete idle copy.

    Nodes in a zone of a placed node come first. A hash orders nodes, so that a node that joins or leaves rarely changes
    the choice.
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
    """Return True if a placed node lacks data and fewer than two placed nodes could serve all of it."""
    lacking, whole = False, 0
    for node in placed:
        if not _has_all(held.get(node, NOWHERE), version):
            lacking = True
        elif _answers(view, node) and (whole := whole + 1) == _ENOUGH:
            return False
    return lacking


def _has_all(state: NodeState, version: str) -> bool:
    """Return True if a node has all files to warm of a version, even if it was not to fetch them."""
    row, desired = state.reported, state.desired
    if row is None or desired is None or row.version != version or state.found:
        return False
    part = part_of(row, desired.warm_paths)
    return state.done or (part is not None and 0 < part.files <= part.warm_files)


def _answers(view: ClusterView, node: str) -> bool:
    found = view.nodes.get(node)
    return found is not None and found.ready and node in view.node_caches and known_address(found.address)


def _zone(view: ClusterView, node: str) -> str:
    found = view.nodes.get(node)
    return site_by(found.labels, "").zone if found is not None else ""


@lru_cache(maxsize=1 << 14)
def _number(node: str) -> bytes:
    return blake2b(node.encode(), digest_size=_NUMBER).digest()
