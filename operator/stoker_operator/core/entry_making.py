"""What the nodes of one Dataset are told, where thousands have it: what most are told alike is made once.

The answer is that of ``plan.entry_of``, which is the plain form of it and which a property test holds it equal to.
"""

from collections.abc import Mapping
from typing import Final

from stoker_api.node_dataset import NodeDataset
from stoker_operator.core.compact_rows import compacted
from stoker_operator.core.live_versions import versions_of
from stoker_operator.core.manifest_hosts import MANIFEST_SOURCES, keeps_manifest_hosts, manifest_hosts
from stoker_operator.core.neighbourhoods import Neighbourhood
from stoker_operator.core.node_roles import Role
from stoker_operator.core.node_states import NodeState, NodeStates
from stoker_operator.core.plan import DatasetPlan, node_dataset, with_neighbours
from stoker_operator.core.views import ClusterView

_NESTED = ("source", "tuning")  # models of their own, which take long to compare unless they are one object


class EntryMaker:
    """The entries of one Dataset; ``together``: as ``plan.dividing`` returned it."""

    def __init__(
        self, view: ClusterView, plan: DatasetPlan, states: NodeStates, together: Mapping[str, Neighbourhood]
    ) -> None:
        self._view: Final = view
        self._plan: Final = plan
        self._states: Final = states
        self._together: Final = together
        listing = plan.listing
        # Nodes of which there are few, and that are told something of their own.
        self._apart: Final = {listing.node, *listing.holders[:MANIFEST_SOURCES], *plan.placement.starved}
        self._apart.update(plan.uses_at, plan.wanted)
        self._hosts: Final = frozenset(manifest_hosts(view, listing))
        self._alike: Final[dict[bool, NodeDataset]] = {}  # what all others are told, by whether they have a place

    def entry(self, node: str) -> NodeDataset:
        """Return what a node is to be told: as it was told already, where that says the same."""
        state = self._states.get(self._plan.dataset.metadata.uid, node)
        if node in self._apart or self._retains(state):
            entry = node_dataset(self._view, self._plan, node, self._states)
        else:
            entry = self._plain(node, state.desired)
        group = self._together.get(node)
        keeps_hosts = keeps_manifest_hosts(state, entry.version, self._hosts)
        if state.desired is not None and _says(state.desired, entry, group, keeps_hosts):
            return state.desired
        return compacted(with_neighbours(entry, group))

    def _retains(self, state: NodeState) -> bool:
        """Tell whether a node may have to keep another version than the current one."""
        if state.reported is not None and state.reported.version not in ("", self._plan.listing.version):
            return True
        return bool(self._plan.live) and not self._plan.live.isdisjoint(versions_of(state))

    def _plain(self, node: str, there: NodeDataset | None) -> NodeDataset:
        placed = self._plan.placement.roles.get(node) in (Role.REPLICA, Role.USER)
        known = self._alike.get(placed)
        if known is None:
            known = self._alike[placed] = node_dataset(self._view, self._plan, node, self._states)
        if there is None:
            return known
        ours, theirs = vars(known), vars(there)
        same = {name: theirs[name] for name in _NESTED if theirs[name] is not ours[name] and theirs[name] == ours[name]}
        if same:
            known = self._alike[placed] = known.model_copy(update=same)
        return known


def share_neighbours(entry: NodeDataset, other: NodeDataset) -> None:
    """Have an entry use the neighbours of another one of its node, where they are the same: 340 of its 1,200 bytes.

    They are for Datasets on the same nodes.
    """
    for name in ("peers", "groups"):
        ours, theirs = getattr(entry, name), getattr(other, name)
        if ours is not theirs and ours == theirs:
            object.__setattr__(entry, name, theirs)


def _says(there: NodeDataset, entry: NodeDataset, group: Neighbourhood | None, keeps_hosts: bool) -> bool:
    """Tell whether a node was told this already, with these neighbours; ``keeps_hosts``: or other manifest hosts."""
    same: dict[str, object] = {"manifest_hosts": there.manifest_hosts} if keeps_hosts else {}
    if group is not None:
        groups = there.groups
        told = (there.position, groups.links, groups.distances, groups.first, groups.width, there.peers)
        if told != (group.position, group.links, group.distances, group.first, group.width, group.peers):
            return False
        same |= {"peers": there.peers, "position": there.position, "groups": groups}
    return vars(entry) | same == vars(there)
