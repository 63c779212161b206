"""Which nodes should hold one Dataset, and the order in which the Datasets under each quota are asked.

Selector, replicas, pods first, capacity, and keep what is warm where it is.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import Final

from stoker_api.dataset import Dataset
from stoker_api.times import parse_time
from stoker_operator.core.dataset_size import listed_size, size_on_node
from stoker_operator.core.fill_order import FillOrders, fresh_rank
from stoker_operator.core.node_promises import NOTHING, Promise
from stoker_operator.core.node_roles import Placement, Role
from stoker_operator.core.node_room import FillRoom, KeepRoom, Selection
from stoker_operator.core.node_states import NodeState, alive, fell_silent
from stoker_operator.core.quota import QuotaShare, Tenant
from stoker_operator.core.replica_share import limited_sentence, share_now
from stoker_operator.core.replica_spread import FreeNodes, ReplicaSpread, spread_of
from stoker_operator.core.steps import Steps
from stoker_operator.core.warm_nodes import may_warm

_AT_ONCE = 500  # nodes of one step of a turn
NO_NODES = frozenset[str]()


def by_age_within(drafts: list["Draft"]) -> list["Draft"]:
    """Let the Datasets under each quota take their turns by age, or use would drive data out and back again."""
    waiting: dict[Tenant, deque[Draft]] = {}
    for one in sorted((one for one in drafts if one.share.limited), key=lambda one: one.age):
        waiting.setdefault(one.share.tenant, deque()).append(one)
    return [waiting[one.share.tenant].popleft() if one.share.limited else one for one in drafts]


_SERVING = (Role.REPLICA, Role.USER, Role.GUEST)
Standing = tuple[bool, bool, bool, tuple[object, ...]]


class Draft:
    """The placement of one dataset in the making."""

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
        self._now: Final = now
        self.held: Final = held
        self.size: Final = size_on_node(dataset)
        self._spread: Final = spread_of(dataset, selection)
        self._need: Final = max(self.size, listed_size(dataset, held)) if share.limited else self.size
        self.roles: dict[str, Role] = {}
        self._starved: Final[set[str]] = set()
        self._over_quota = False
        self.keeping = 0  # nodes that may keep what they were given
        self._counted: Final[set[str]] = set()  # nodes of idle data that is charged already
        self.selection: Final = selection
        self._selected: Final = selection.nodes
        # Of those that it names, where it does; warm data elsewhere may stay while nobody needs the room.
        self._named: Final = frozenset(dataset.spec.warm.nodes)
        # Nodes that do not have it decide how many should.
        self.follows_nodes: Final = bool(self._named) or dataset.spec.cache.replicas == "all"
        self._fresh: Final[AbstractSet[str]] = self._named & selection.fresh if self._named else selection.fresh
        self._counted_nodes: Final = len(selection.counted)
        self._share: Final = share_now(dataset, self._counted_nodes)
        self._desired: Final = self._count_desired()
        self._chosen = NO_NODES

    def keep(self, ledger: KeepRoom) -> Iterator[None]:
        """Keep replicas that exist; then pods' nodes; what is left over and warm is idle. In steps of some ms."""
        current = list[str]()
        for count, name in enumerate(self.held):
            if self._may_stay(name, ledger):
                current.append(name)
            if count % _AT_ONCE == _AT_ONCE - 1:
                yield
        self.keeping = len(current)
        if self.share.limited or not self.takes_all:
            current.sort(key=lambda name: self._keep_rank(name, self.held[name]))
        if self._spread is not None and not self.takes_all:
            current = self._spread.first(current, self._fell_silent)
        for name in islice((name for name in current if self._within_quota(name)), self._desired):
            self._give(name, Role.REPLICA, ledger)
            if len(self.roles) % _AT_ONCE == 0:
                yield
        for name in sorted(self._pods - self.roles.keys()):
            self._serve(name, ledger)
        for name in sorted(self.held) if self.share.limited else self.held:  # whose quota runs out tells by the order
            state = self.held[name]
            if name in self.roles or not self._worth_keeping(name, state):
                continue
            if self._is_leaving(name):
                self.roles[name] = Role.LEAVING
            else:
                self.roles[name] = Role.IDLE
                ledger.count_idle(name, self.evictable(state))
                if self.dataset.spec.cache.pinned:
                    self._count(name)

    @property
    def takes_all(self) -> bool:
        """True when every node that keeps it is a replica, so that their ranks do not matter."""
        return self.keeping <= self._desired

    def is_outdated(self, seen: int) -> bool:
        """Tell whether nodes changed, since that version of its selection, so that another number should have it."""
        if self.follows_nodes:
            return seen != self.selection.version
        return self._share is not None and self._counted_nodes != len(self.selection.counted)

    def standing(self, name: str, state: NodeState, role: Role | None) -> Standing:
        """Return what decides about the Dataset's role on a node that was given it or has it, in ``role`` so far."""
        holds, whole = self._holds(name, state), self.follows_nodes or state.warm_bytes > 0 or state.unread
        rank = self._keep_rank(name, state) if holds and not self.takes_all else ()
        worth = role in _SERVING or self._worth_keeping(name, state)  # a node that stays in its role is not idle
        return holds, whole, worth, rank

    def promise(self, state: NodeState, role: Role | None) -> Promise:
        """Return the bytes that the node may still take in that role, and those that dropping it would free."""
        if role in (None, Role.LEAVING):
            return NOTHING
        if role is Role.IDLE:
            return None, self.evictable(state)
        here = self.size if state.unread or role is Role.GUEST else state.warm_bytes
        return max(0, self.size - here), 0

    def fill(self, ledger: FillRoom, chosen: frozenset[str], orders: FillOrders | None = None) -> Steps[None]:
        """Add replicas, where there are too few: first on nodes that pods use anyway, then on fresh ones. In steps.

        Of these on ``chosen`` first, which were chosen before and may not have been told yet: else one that says
        meanwhile that it has more room would be told as well. ``orders``: kept for all Datasets of a pass, by which the
        nodes are as without them.
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
        fresh = yield from self._first_fresh(missing, ledger, orders)
        for number, name in enumerate(fresh, 1):
            if missing and self._within_quota(name):
                self._give(name, Role.REPLICA, ledger)
                missing -= 1
            if number % _AT_ONCE == 0:
                yield

    def _first_fresh(self, missing: int, ledger: FillRoom, orders: FillOrders | None) -> Steps[list[str]]:
        """Return fresh nodes in their order, which is of no matter where it takes all of them.

        Giving one of them changes no other's rank.
        """
        if missing >= len(self._fresh) - len(self.roles) and not self.share.limited:
            unserved = self._fresh - self.roles.keys()
            if missing >= len(unserved):
                return sorted(unserved)  # as of all nodes: thousands, which ranks would have to be worked out for
        # An order steps over those that have it already, one by one.
        few = 2 * len(self.roles) < len(self._fresh)
        if orders is not None and few and not self.share.limited and not self._named:
            again = self._first_chosen(missing, ledger)
            but = {*self.roles, *again}
            return again + (yield from orders.of(self.selection).first(missing - len(again), self.size, but))
        free = [name for name in self._fresh if name not in self.roles]
        rank = partial(self._fresh_rank, ledger=ledger)
        return sorted(free, key=rank) if self.share.limited else nsmallest(missing, free, key=rank)

    def _first_chosen(self, most: int, ledger: FillRoom) -> list[str]:
        """Return those of the chosen ones that come before all others, in their order."""
        free = (name for name in self._chosen if name in self._fresh and name not in self.roles)
        ranks = nsmallest(most, (self._fresh_rank(name, ledger) for name in free))
        return [name for full, tainted, *_, name in ranks if not full and not tainted]

    def _fill_spread(self, spread: ReplicaSpread, ledger: FillRoom) -> None:
        """Add replicas so that domains have like many of them; in each domain as ``fill`` would."""
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

    def count_idle(self, ledger: FillRoom) -> None:
        """Keep as much idle data as the quota has left."""
        for name in self.nodes_with(Role.IDLE):
            if name not in self._counted and not self._count(name):
                freed = self.evictable(self.held[name])
                ledger.drop(name, freed)
                ledger.count_idle(name, -freed)
                del self.roles[name]

    def drop_idle(self, ledger: FillRoom) -> None:
        """Give up idle data on nodes that promised more than they have."""
        for name in self.nodes_with(Role.IDLE):
            freed = self.evictable(self.held[name])
            if freed and ledger.free(name) < 0:
                ledger.drop(name, freed)
                del self.roles[name]

    def result(self) -> Placement:
        """Return what the turns came to."""
        short = self._over_quota and (self._starved or self.missing())
        return Placement(
            dict(self.roles),
            self._desired,
            self.selection.eligible,
            over_quota=self.share.sentence(self._need) if short else "",
            starved=frozenset(self._starved),
            charged=self.share.charged,
            share=self._share,
            share_limit=limited_sentence(self._share, self.share.terms.most_replicas, self.share.terms.name),
        )

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
        staying = {name for name, state in self.held.items() if self._holds(name, state)}
        return len(staying | self._fresh)

    def missing(self) -> int:
        """Count the replicas that there are too few of."""
        return max(0, self._desired - len(self.nodes_with(Role.REPLICA)))

    def _may_stay(self, name: str, ledger: KeepRoom) -> bool:
        """Tell whether a node keeps what it was given.

        One that is fine does, a cold one may lose it to a node with room for it, where not all that could have it do.
        """
        state = self.held[name]
        if not self._holds(name, state):
            return False
        if self.follows_nodes or state.warm_bytes or state.unread or ledger.fits(name, self.size):
            return True
        return not ledger.fits_elsewhere(self._fresh, name, self.size)

    def _holds(self, name: str, state: NodeState) -> bool:
        """Tell whether a node holds it already: more than a node that takes nothing new and was only asked to list."""
        node = self._selected.get(name)
        if node is None or node.leaving or not alive(node, self._now) or (self._named and name not in self._named):
            return False
        if state.desired is None:
            return state.found
        return state.desired.eager or state.warm_bytes > 0 or state.unread or name in self._fresh

    def _worth_keeping(self, name: str, state: NodeState) -> bool:
        """Tell whether idle data stays.

        Until the room is needed, and on a node that is silent, where nothing can be done anyway.
        """
        if self.dataset.metadata.deletion_timestamp or name not in self.selection.everywhere:
            return False
        if state.desired is None:
            return state.found and name in self._selected
        silent = not self.selection.everywhere[name].ready
        return silent or (name in self._selected and (state.warm_bytes > 0 or state.unread))

    def evictable(self, state: NodeState) -> int:
        """Return the bytes that dropping it would free; 0 for what is pinned."""
        return 0 if self.dataset.spec.cache.pinned else state.warm_bytes

    def _serve(self, name: str, ledger: KeepRoom) -> None:
        """Give it to a node where pods use it: to be read through where the quota has no room for it."""
        if self._is_leaving(name):
            self.roles[name] = Role.LEAVING
            return
        if not self._within_quota(name):
            self._starved.add(name)
        named = name in self._selected and may_warm(self.dataset, self._selected[name])
        selected = named and name not in self._starved
        self._give(name, Role.USER if selected else Role.GUEST, ledger)

    def _is_leaving(self, name: str) -> bool:
        node = self.selection.everywhere.get(name)
        return node is not None and bool(node.leaving)

    def _within_quota(self, name: str) -> bool:
        if not self.share.limited:
            return True
        fits = self.share.fits(name, self._amount(name))
        self._over_quota = self._over_quota or not fits
        return fits

    def _amount(self, name: str) -> int:
        """Return what counts to the quota: bytes of its version, or of more where the node still has more."""
        held = self.held.get(name)
        return max(self._need, held.warm_bytes) if held else self._need

    def _count(self, name: str) -> bool:
        """Charge idle data to the quota; False when there is no room for it, and it is known how much it is."""
        state = self.held[name]
        amount = self._need if state.unread else state.warm_bytes
        if not self.share.fits(name, amount):
            return state.unread
        self._counted.add(name)
        self.share.charge(name, amount)
        return True

    def _give(self, name: str, role: Role, ledger: KeepRoom) -> None:
        self.roles[name] = role
        held = self.held.get(name, NodeState())
        ledger.charge(name, self.promise(held, role)[0] or 0)
        if self.share.limited:
            self.share.charge(name, held.warm_bytes if name in self._starved else self._amount(name))

    def _keep_rank(self, name: str, state: NodeState) -> tuple[bool, bool, bool, bool, str]:
        """Rank whole before partial, then whoever is warming already; both only ever grow, so that nothing flips.

        Nodes that are silent come last, after a while: when an API server comes back, its nodes are not ready one after
        the other, and what one of them has would be fetched by the next.
        """
        eager = state.desired is not None and state.desired.eager
        return (self._fell_silent(name), not state.done, not eager, name not in self._pods, name)

    def _fell_silent(self, name: str) -> bool:
        return fell_silent(self.selection.everywhere[name], self._now)

    def _fresh_rank(self, name: str, ledger: FillRoom) -> tuple[bool, bool, bool, int, int, str]:
        """Rank nodes with room first; tainted ones late, since few pods go there.

        Then those that were chosen before, then the emptiest, then the freest.
        """
        tainted, given, taken, _ = fresh_rank(self.selection, ledger, name)
        fits = ledger.fits(name, self.size)
        return (not fits, tainted, name not in self._chosen, given if fits else 0, taken, name)
