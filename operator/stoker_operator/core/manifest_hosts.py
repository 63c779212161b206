"""Who can hand out the manifest of a Dataset's version, whom a node is told of, and when it is told anew. Pure."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache

from stoker_api.endpoint import is_address
from stoker_operator.core.listing import ListingState
from stoker_operator.core.node_states import NodeState
from stoker_operator.core.views import ClusterView

MANIFEST_SOURCES = 3  # nodes that a new holder may ask for the manifest: one may be down, two at once are rare
_ENOUGH = 2  # hosts that a node knows already, for the same reason


def manifest_hosts(view: ClusterView, listing: ListingState) -> tuple[str, ...]:
    """Return who can hand out the manifest: more than one node is told of, and whoever asks may be among them."""
    return addresses(view, listing.holders)


def hosts_told(view: ClusterView, listing: ListingState, node: str) -> tuple[str, ...]:
    """Return whom a node may ask; nobody for the one that listed, which has the manifest."""
    if not listing.version or node == listing.node:
        return ()
    return addresses(view, (name for name in listing.holders[:MANIFEST_SOURCES] if name != node))


def keeps_manifest_hosts(state: NodeState, version: str, hosts: AbstractSet[str]) -> bool:
    """Tell whether a node is told nothing because others come first among the ``hosts`` of a version's manifest.

    It has the manifest, or two of those that it knows are among them still. While thousands of nodes get it, the first
    few that have it are others again and again.
    """
    if state.has_manifest(version):
        return True
    there = state.desired
    return there is not None and there.version == version and len(hosts & set(there.manifest_hosts)) >= _ENOUGH


def addresses(view: ClusterView, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return where sidecars say that they answer, which others go by: what is no address is left out."""
    said = (view.node_caches[name].status.address for name in nodes)
    return tuple(address for address in said if known_address(address))


@lru_cache(maxsize=20_000)  # of thousands of nodes, each looked at for each Dataset that is on all of them
def known_address(text: str) -> bool:
    """Tell whether it is an address of a sidecar."""
    return is_address(text)
