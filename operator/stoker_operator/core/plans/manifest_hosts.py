"""Choose the nodes from which a node fetches the manifest of a Dataset's version, and when to update that choice.

Pure.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache

from stoker_api.datasets.endpoint import is_address
from stoker_operator.core.plans.listing import ListingState
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NodeState

MANIFEST_SOURCES = 3  # nodes that a new holder may ask for the manifest: one may be down, two at once are rare
_ENOUGH = 2  # hosts that a node already knows, for the same reason


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
    return there is not None and there.version == version and len(hosts & set(there.manifest_hosts)) >= _ENOUGH


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
