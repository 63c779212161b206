"""Place one Dataset on nodes, and order the Datasets under each quota.

The inputs are the selector, replicas, pods, capacity, and the nodes that already have warm data.
"""

from collections import deque
from collections.abc import Mapping
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import Final

from stoker_api.datasets.dataset import Dataset
from stoker_api.times import parse_time
from stoker_operator.core.classes.class_limits import limited_sentence, share_now
from stoker_operator.core.placement.fill_order import FillOrders, fresh_rank
from stoker_operator.core.placement.held_data import HeldData
from stoker_operator.core.placement.node_promises import NOTHING, Promise, listed_size, size_on_node
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.placement.node_room import FillRoom, KeepRoom, NodeRoom, Selection
from stoker_operator.core.placement.node_rules import may_warm
from stoker_operator.core.placement.quota import QuotaShare, Tenant
from stoker_operator.core.placement.replica_spread import FreeNodes, ReplicaSpread, spread_of
from stoker_operator.core.views.node_states import NodeState

NO_NODES = frozenset[str]()


def by_age_within(drafts: list["Draft"]) -> list["Draft"]:
    """Order the Datasets under each quota by age. Otherwise use would evict data and bring it back again."""
    waiting: dict[Tenant, deque[Draft]] = {}
    for one in sorted((one for one in drafts if one.share.limited), key=lambda one: one.age):
        waiting.setdefault(one.share.tenant, deque()).append(one)
    return [waiting[one.share.tenant].popleft() if one.share.limited else one for one in drafts]


_SERVING = (Role.REPLICA, Role.USER, Role.GUEST)
Standing = tuple[bool, bool, bool, tuple[object, ...]]


class Draft:
    """The placement of one Dataset in progress."""

    def __init__(
        self,
        dataset: Dataset,
        held: Mapping[str, NodeState],
        pods: frozenset[str],
        selection: Selection,
        share: QuotaShare,
        now: float,
    ) -> None:
        self.dataset: Final = dataset
        self.share: Final = share
        self.age: Final = (parse_time(dataset.metadata.creation_timestamp), dataset.key)
        self._pods: Final = pods
        self.held: Final = held
        self.size: Final = size_on_node(dataset)
        self._spread: Final = spread_of(dataset, selection)
        self._need: Final = max(self.size, listed_size(dataset, held)) if share.limited else self.size
        self.roles: dict[str, Role] = {}
        self._starved: Final[set[str]] = set()
        self._over_quota = False
        self._found: Final = set[str]()  # nodes whose data is known only from their reports
        self.keeping = 0  # nodes that may keep their replica
        self._counted: Final[set[str]] = set()  # nodes whose idle data is already charged
        self.selection: Final = selection
        self._selected: Final = selection.nodes
        self.data: Final = HeldData(dataset, pods, selection, now)
        self._named: Final = self.data.named
        # Nodes without the Dataset affect the wanted number.
        self.follows_nodes: Final = bool(self._named) or dataset.spec.cache.replicas == "all"
        self._fresh: Final = self.data.fresh
        self._counted_nodes: Final = len(selection.counted)
        self._share: Final = share_now(dataset, self._counted_nodes)
        self._desired: Final = self._count_desired()
        self._chosen = NO_NODES

    def keep(self, ledger: KeepRoom) -> None:
        """Keep existing replicas, then serve nodes of pods. Other warm data becomes idle."""
        current = list[str]()
        for name in self.held:
            if self._may_stay(name, ledger):
                current.append(name)
            if self.held[name].found:
                self._found.add(name)
        self.keeping = len(current)
        if self.share.limited or not self.takes_all:
            current.sort(key=lambda name: self.data.keep_rank(name, self.held[name]))
        if self._spread is not None and not self.takes_all:
            current = self._first_spread(self._spread, current)
        for name in islice((name for name in current if self._within_quota(name)), self._desired):
            self._give(name, Role.REPLICA, ledger)
        for name in sorted(self._pods - self.roles.keys()):
            self._serve(name, ledger)
        for name in sorted(self.held) if self.share.limited else self.held:  # with a quota the order matters
            state = self.held[name]
            if name in self.roles or not self.data.worth_keeping(name, state):
                continue
            if self.data.is_leaving(name):
                self.roles[name] = Role.LEAVING
            else:
                self.roles[name] = Role.IDLE
                ledger.count_idle(name, self.data.evictable(state))
                if self.dataset.spec.cache.pinned:
                    self._count(name)

    def _first_spread(self, spread: ReplicaSpread, names: list[str]) -> list[str]:
        """Order nodes for domains. Nodes whose data is known only from their reports come last."""
        sure = [name for name in names if not self.held[name].found]
        found = [name for name in names if self.held[name].found]
        return spread.first(sure, self.data.fell_silent) + (spread.first(found, self.data.fell_silent) if found else [])

    @property
    def takes_all(self) -> bool:
        """True if every node that keeps it is a replica, so ranks do not matter."""
        return self.keeping <= self._desired

    def is_outdated(self, seen: int) -> bool:
        """Return True if changes of nodes since version ``seen`` of the selection may change the wanted number."""
        if self.follows_nodes:
            return seen != self.selection.version
        return self._share is not None and self._counted_nodes != len(self.selection.counted)

    def standing(self, name: str, state: NodeState, role: Role | None) -> Standing:
        """Return the inputs of the Dataset's role on a node that should have or has it. ``role``: its current role."""
        holds, whole = self.data.holds(name, state), self.follows_nodes or state.warm_bytes > 0 or state.unread
        rank = (state.found, *(self.data.keep_rank(name, state) if holds and not self.takes_all else ()))
        worth = role in _SERVING or self.data.worth_keeping(name, state)  # a node that stays in its role is not idle
        return holds, whole, worth, rank

    def promise(self, state: NodeState, role: Role | None) -> Promise:
        """Return the bytes that the node may still take in that role, and the bytes that dropping it frees."""
        if role in (None, Role.LEAVING):
            return NOTHING
        if role is Role.IDLE:
            return None, self.data.evictable(state)
        here = self.size if state.unread or role is Role.GUEST else state.warm_bytes
        return max(0, self.size - here), 0

    def fill(self, ledger: FillRoom, chosen: frozenset[str], orders: FillOrders) -> None:
        """Add missing replicas: first on nodes that pods already use, then on fresh nodes.

        Nodes in ``chosen`` come first among fresh nodes. An earlier pass chose them, and their NodeCaches may not be
        written yet. Otherwise a node that reports more room would get the Dataset too. ``orders``: shared by all
        Datasets of a pass.
        """
        self._chosen = chosen
        if self._spread is not None and self.missing():
            self._fill_spread(self._spread, ledger)
            return
        for name in sorted(self.nodes_with(Role.USER))[: self.missing()]:
            self.roles[name] = Role.REPLICA
        missing = self.missing()
        if not missing:
            return
        for name in self._first_fresh(missing, ledger, orders):
            if missing and self._within_quota(name):
                self._give(name, Role.REPLICA, ledger)
                missing -= 1

    def _first_fresh(self, missing: int, ledger: FillRoom, orders: FillOrders) -> list[str]:
        """Return fresh nodes in order. The order does not matter if all are needed.

        Placing the Dataset on one node does not change the rank of another.
        """
        rank = partial(self._fresh_rank, ledger=ledger)
        if missing >= len(self._fresh) - len(self.roles) and not self.share.limited:
            unserved = self._fresh - self.roles.keys()
            if missing >= len(unserved):
                return sorted(unserved)  # as with replicas "all": thousands of nodes, whose ranks are expensive
        # An order skips nodes that already have the Dataset, one by one.
        few = 2 * len(self.roles) < len(self._fresh)
        if few and not self.share.limited and not self._named:
            first = orders.of(self.selection).first(missing, self.size, self.roles)
            chosen = (self._chosen & self._fresh) - self.roles.keys()  # the order does not put these first
            return nsmallest(missing, chosen.union(first), key=rank) if chosen else first
        free = [name for name in self._fresh if name not in self.roles]
        return sorted(free, key=rank) if self.share.limited else nsmallest(missing, free, key=rank)

    def _fill_spread(self, spread: ReplicaSpread, ledger: FillRoom) -> None:
        """Add replicas so that domains have similar numbers. Within a domain, follow the order of ``fill``."""
        users = frozenset(self.nodes_with(Role.USER))

        def rank(name: str) -> tuple[bool, tuple[object, ...]]:
            return name not in users, (name,) if name in users else self._fresh_rank(name, ledger)

        def accept(name: str) -> bool:
            if name in users:
                self.roles[name] = Role.REPLICA
            elif self._within_quota(name):
                self._give(name, Role.REPLICA, ledger)
            else:
                return False
            return True

        def is_free(name: str) -> bool:
            return name in self._fresh and name not in self.roles

        free = FreeNodes(users, is_free, partial(ledger.fits, need=self.size), rank, accept)
        spread.fill(frozenset(self.nodes_with(Role.REPLICA)), free, self.missing())

    def count_idle(self) -> None:
        """Keep as much idle data as the quota allows."""
        for name in self.nodes_with(Role.IDLE):
            if name not in self._counted and not self._count(name):
                del self.roles[name]

    def result(self) -> Placement:
        """Return the placement after all turns."""
        short = self._over_quota and (self._starved or self.missing())
        return Placement(
            dict(self.roles),
            self._desired,
            self.selection.eligible,
            over_quota=self.share.sentence(self._need) if short else "",
            starved=frozenset(self._starved),
            charged=self.share.charged,
            share=self._share,
            adopted=self._adopted(),
            share_limit=limited_sentence(self._share, self.share.terms.most_replicas, self.share.terms.name),
        )

    def _adopted(self) -> frozenset[str]:
        """Return idle and leaving nodes whose data is known only from their reports."""
        return frozenset(name for name in self._found if self.roles.get(name) in (Role.IDLE, Role.LEAVING))

    def nodes_with(self, role: Role) -> list[str]:
        """Return the nodes in a role."""
        return [name for name, given in self.roles.items() if given is role]

    def _count_desired(self) -> int:
        if self.dataset.metadata.deletion_timestamp:
            return 0
        replicas = self.dataset.spec.cache.replicas
        if isinstance(replicas, int) and not self._named:
            return replicas
        if self._share is not None and not self._named:
            most = self.share.terms.most_replicas
            return self._share if most is None else min(self._share, most)
        staying = {name for name, state in self.held.items() if self.data.holds(name, state)}
        return len(staying | self._fresh)

    def missing(self) -> int:
        """Return the number of missing replicas."""
        return max(0, self._desired - len(self.nodes_with(Role.REPLICA)))

    def _may_stay(self, name: str, ledger: KeepRoom) -> bool:
        """Return True if a node keeps its replica.

        A warm node keeps it. A cold node without room loses it if another node has room and lacks it.
        """
        state = self.held[name]
        if not self.data.holds(name, state):
            return False
        if self.follows_nodes or state.warm_bytes or state.unread or ledger.fits(name, self.size):
            return True
        return not ledger.fits_elsewhere(self._fresh, name, self.size)

    def _serve(self, name: str, ledger: KeepRoom) -> None:
        """Place it on a node where pods use it. Without quota there, pods read it through."""
        if self.data.is_leaving(name):
            self.roles[name] = Role.LEAVING
            return
        if not self._within_quota(name):
            self._starved.add(name)
        named = name in self._selected and may_warm(self.dataset, self._selected[name])
        selected = named and name not in self._starved
        self._give(name, Role.USER if selected else Role.GUEST, ledger)

    def _within_quota(self, name: str) -> bool:
        if not self.share.limited:
            return True
        fits = self.share.fits(name, self._amount(name))
        self._over_quota = self._over_quota or not fits
        return fits

    def _amount(self, name: str) -> int:
        """Return the bytes for the quota: the size of its version, or the node's bytes if those are more."""
        return max(self._need, self.held.get(name, NodeState()).sure_bytes)

    def _count(self, name: str) -> bool:
        """Charge idle data to the quota. Return False if it does not fit and its size is known."""
        state = self.held[name]
        if state.found:
            return True
        amount = self._need if state.unread else state.warm_bytes
        if not self.share.fits(name, amount):
            return state.unread
        self._counted.add(name)
        self.share.charge(name, amount)
        return True

    def _give(self, name: str, role: Role, ledger: NodeRoom) -> None:
        self.roles[name] = role
        held = self.held.get(name, NodeState())
        ledger.charge(name, self.promise(held, role)[0] or 0)
        if self.share.limited:
            self.share.charge(name, held.sure_bytes if name in self._starved else self._amount(name))

    def _fresh_rank(self, name: str, ledger: FillRoom) -> tuple[bool, bool, bool, int, int, str]:
        """Rank nodes with room first and tainted nodes late, because few pods go there.

        Then nodes chosen before, then nodes with fewest Datasets, then nodes with most free bytes.
        """
        tainted, given, taken, _ = fresh_rank(self.selection, ledger, name)
        fits = ledger.fits(name, self.size)
        return (not fits, tainted, name not in self._chosen, given if fits else 0, taken, name)
