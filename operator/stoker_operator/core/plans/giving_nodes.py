"""Choose the nodes that serve a Dataset, or a version's manifest, to other nodes. Pure.

Draining nodes serve everything that they have. A few nodes with idle data serve while placed nodes lack copies. Each
placed node gets two updates: when that starts and when it ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from stoker_api.datasets.endpoint import is_address
from stoker_operator.core.peers.peer_groups import site_by
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.plans.listing import ListingState
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NOWHERE, NodeState, part_of

MANIFEST_SOURCES = 3  # nodes that a new holder may ask for the manifest: one may be down, two at once are rare
_ENOUGH_HOSTS = 2  # hosts that a node already knows, for the same reason


def manifest_hosts(view: ClusterView, listing: ListingState) -> tuple[str, ...]:
    """Return the hosts that can serve the manifest. The caller may be among them."""
    return addresses(view, listing.holders)


def hosts_told(view: ClusterView, listing: ListingState, node: str) -> tuple[str, ...]:
    """Return the hosts that a node may ask. A lister gets none, unless it lost the manifest and other nodes have it."""
    if not listing.version or (node == listing.node and (node in listing.holders or not listing.holders)):
        return ()
    return addresses(view, (name for name in listing.holders[:MANIFEST_SOURCES] if name != node))


def keeps_manifest_hosts(state: NodeState, version: str, hosts: AbstractSet[str]) -> bool:
    """Return True if a node needs no new manifest hosts, although the first ``hosts`` of the version changed.

    It has the manifest, or it knows two of the current hosts. While thousands of nodes fetch a manifest, the first few
    holders change often.
    """
    if state.has_manifest(version):
        return True
    there = state.desired
    return there is not None and there.version == version and len(hosts & set(there.manifest_hosts)) >= _ENOUGH_HOSTS


def addresses(view: ClusterView, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the addresses of these nodes' sidecars, from their Pods. Skip nodes without one."""
    return tuple(address for name in nodes if known_address(address := address_of(view, name)))


def address_of(view: ClusterView, node: str) -> str:
    """Return ``host:port`` of a node's sidecar, from its Pod. Return "" if it is unknown or the node is revoked."""
    found, cache = view.nodes.get(node), view.node_caches.get(node)
    return found.address if found is not None and not (cache is not None and cache.is_revoked) else ""


@lru_cache(maxsize=20_000)  # thousands of nodes, each checked for every Dataset on all nodes
def known_address(text: str) -> bool:
    """Return True if the text is the address of a sidecar."""
    return is_address(text)


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
