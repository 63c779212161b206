"""Writes the plans of nodes. If the API server refuses a plan, the refused Datasets are left out."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.backoff import Backoff
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_kube.errors import KubeError
from stoker_kube.events import ObjectRef
from stoker_operator.core.plans.plan import DatasetPlan, NodeCacheWrite
from stoker_operator.core.views.node_states import found_on_disk
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.writes.write_budget import WritePriority
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)

# Status codes of a refusal by the API server or a policy; 500 includes objects too large for etcd.
_SPOILT = frozenset({400, 403, 413, 422, 500})
FIRST = 10.0  # seconds until a refused entry is tried again
LAST = 300.0

_URGENT_WRITES = 100.0  # per namespace; the count halves each minute
_KEY = "NodeCache "
Entries = dict[str, NodeDataset]  # by UID


@dataclass
class _Refusal:
    """An entry that the API server refuses in a node's NodeCache."""

    entry: NodeDataset
    sentence: str
    backoff: Backoff
    due: float


@dataclass(frozen=True, slots=True)
class _Wish:
    """The action of a write, whether it requests a listing, and the namespaces whose entries it changes."""

    write: NodeCacheWrite
    lists: bool
    payers: tuple[str, ...]
    action: KeyedAction


class NodeCachePlans:
    """The plans of all nodes; ``clock`` returns seconds since the epoch."""

    def __init__(
        self, writer: Writer, state: ClusterState, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """Start empty; ``wake()`` is called when an entry is refused or accepted again."""
        self._writer: Final = writer
        self._state: Final = state
        self._clock: Final = clock
        self._wake: Final = wake
        self._refused: Final[dict[str, dict[str, _Refusal]]] = {}  # node -> UID
        self._made: dict[str, _Wish] = {}  # from the last pass

    def actions(self, writes: Iterable[NodeCacheWrite], awaited: Collection[str] = ()) -> Iterator[KeyedAction]:
        """Yield the actions that write changed NodeCaches; held pods wait for the nodes in ``awaited``.

        All nodes of a Dataset wait for the node that lists it, so that write is urgent. A write takes the turn of the
        namespace that has spent least among those whose entries it changes. All of these namespaces pay for it. A
        namespace that recently spent ``_URGENT_WRITES`` has no urgent writes: its held pods would delay every other
        namespace's plans.
        """
        before, self._made = self._made, {}
        for write in writes:
            node = write.node.name
            known = before.get(node)  # thousands may wait for the budget over many passes
            if known is not None and known.write is write:
                lists, payers = known.lists, known.payers
            else:
                lists, payers = self._lists(write), self._payers(write)
            scope = min(payers, key=self._spent, default="")
            urgent = (lists or node in awaited) and self._spent(scope) < _URGENT_WRITES
            priority = WritePriority.START if urgent else WritePriority.PLAN
            if (
                known is None
                or known.write is not write
                or (known.action.priority, known.action.scope)
                != (
                    priority,
                    scope,
                )
            ):
                known = _Wish(write, lists, payers, self._action(write, priority, scope, payers))
            self._made[node] = known
            yield known.action

    def _lists(self, write: NodeCacheWrite) -> bool:
        """Return True if the write asks the node for a new listing."""
        asked = {entry.listing_id for entry in self._there(write.node.name).values()}
        return any(entry.listing_id and entry.listing_id not in asked for entry in write.spec.datasets)

    def _payers(self, write: NodeCacheWrite) -> tuple[str, ...]:
        """Return the namespaces whose entries the write changes, sorted."""
        there, wanted = self._there(write.node.name), {entry.uid: entry for entry in write.spec.datasets}
        changed = {entry.namespace for uid, entry in wanted.items() if _differs(entry, there.get(uid))}
        gone = {entry.namespace for uid, entry in there.items() if uid not in wanted}
        return tuple(sorted(changed | gone))

    def _spent(self, namespace: str) -> float:
        return self._writer.budget.spent(namespace) if self._writer.budget is not None else 0.0

    def _action(
        self, write: NodeCacheWrite, priority: WritePriority, scope: str, payers: tuple[str, ...]
    ) -> KeyedAction:
        node = write.node.name
        about = ObjectRef(names.API_VERSION, NodeCache.KIND, node)
        # The spec is the mark: a changed plan is written at once, even if the last one failed.
        act = partial(self._write, write)
        return KeyedAction(node_cache_key(node), "nodecache", scope, act, write.spec, about, priority, payers)

    def refuses(self) -> bool:
        """Return True if any node has a refused entry."""
        return any(self._refused.values())

    def troubles(self, uid: str, nodes: Sequence[str]) -> Iterator[str]:
        """Yield a sentence for each of the sorted ``nodes`` where the entry of Dataset ``uid`` is refused."""
        refusing = sorted(node for node, refused in self._refused.items() if uid in refused)
        for node in found_in(nodes, refusing):
            yield f"{node} cannot get it: {self._refused[node][uid].sentence}"

    def keep_only(self, nodes: Mapping[str, object]) -> None:
        """Forget refusals of nodes that are gone."""
        for node in [node for node in self._refused if node not in nodes]:
            del self._refused[node]

    async def _write(self, write: NodeCacheWrite) -> float | None:
        try:
            return await self._write_taken(write)
        finally:
            if not self._refused.get(write.node.name, True):
                del self._refused[write.node.name]  # most nodes have no refusals

    async def _write_taken(self, write: NodeCacheWrite) -> float | None:
        """Write the accepted entries; return the seconds until refused entries are tried again."""
        node, now = write.node.name, self._clock()
        wanted = {entry.uid: entry for entry in write.spec.datasets}
        refused = self._refused.setdefault(node, {})
        for uid in [uid for uid, one in refused.items() if one.entry != wanted.get(uid)]:
            self._forgive(refused, uid)  # it changed, or is not wanted now
        there = self._there(node)
        waiting = {uid for uid, one in refused.items() if one.due > now}
        tried = refused.keys() - waiting
        calm = _without(wanted, refused.keys(), there)
        if write.create or self._spec(write, calm) != self._spec_there(node):
            try:
                await self._put(write, calm)
            except KubeError as error:
                if error.status not in _SPOILT or not wanted:
                    raise
                await self._piecewise(write, wanted, waiting, error)
                tried = set()
        for uid in tried:
            await self._add(write, [uid], wanted)
        return min((one.due - now for one in refused.values()), default=None)

    async def _piecewise(self, write: NodeCacheWrite, wanted: Entries, waiting: set[str], error: KubeError) -> None:
        """Find the refused entries: write the old entries without removed ones, then the new ones in halves."""
        there = self._there(write.node.name)
        base = {uid: entry for uid, entry in there.items() if uid in wanted}
        news = [uid for uid in wanted if wanted[uid] != base.get(uid) and uid not in waiting]
        if base != there or write.create:
            await self._put(write, base)  # a refusal of this is a problem of the NodeCache itself
        elif not news:
            raise error
        await self._add(write, news, wanted)

    async def _add(self, write: NodeCacheWrite, uids: Sequence[str], wanted: Entries) -> None:
        refused = self._refused[write.node.name]
        try:
            await self._put(write, self._there(write.node.name) | {uid: wanted[uid] for uid in uids})
        except KubeError as error:
            if error.status not in _SPOILT:
                raise
            if len(uids) == 1:
                self._refuse(refused, wanted[uids[0]], write.node.name, error)
                return
            half = len(uids) // 2
            await self._add(write, uids[:half], wanted)
            await self._add(write, uids[half:], wanted)
        else:
            for uid in uids:
                self._forgive(refused, uid)

    def _refuse(self, refused: dict[str, _Refusal], entry: NodeDataset, node: str, error: KubeError) -> None:
        known = refused.get(entry.uid) or _Refusal(entry, "", Backoff(FIRST, LAST), 0.0)
        known.due = self._clock() + known.backoff.next()
        known.sentence = error.message
        refused[entry.uid] = known
        log.warning("node %s cannot get Dataset %s/%s: %s", node, entry.namespace, entry.name, error.message)
        self._wake()

    def _forgive(self, refused: dict[str, _Refusal], uid: str) -> None:
        if refused.pop(uid, None) is not None:
            self._wake()

    def _there(self, node: str) -> Entries:
        """Return the entries in the mirror's NodeCache."""
        cache = self._state.node_caches.get(node)
        return {entry.uid: entry for entry in cache.spec.datasets} if cache is not None else {}

    def _spec_there(self, node: str) -> NodeCacheSpec | None:
        """Return the spec in the mirror's NodeCache, with the entries in the order of the plans."""
        cache = self._state.node_caches.get(node)
        return None if cache is None else cache.spec.model_copy(update={"datasets": _sorted(self._there(node))})

    def _spec(self, write: NodeCacheWrite, entries: Entries) -> NodeCacheSpec:
        """Return the plan with these entries only. A refused entry with data on the disk is kept there."""
        cache = self._state.node_caches.get(write.node.name)
        lacking = {entry.uid for entry in write.spec.datasets}.difference(entries)
        found = lacking & found_on_disk(cache) if cache is not None and not write.spec.keep_unlisted else set()
        keep = tuple(sorted(found.union(write.spec.keep)))
        return write.spec.model_copy(update={"datasets": _sorted(entries), "keep": keep})

    async def _put(self, write: NodeCacheWrite, entries: Entries) -> None:
        cache = await self._writer.node_cache(replace(write, spec=self._spec(write, entries)))
        self._state.node_caches.put(cache.key, cache)


def awaited_nodes(wanted: Mapping[str, Collection[str]], plans: Mapping[str, DatasetPlan]) -> set[str]:
    """Return the nodes that held pods wait for; ``wanted``: by Dataset, the nodes where the pods can run.

    This includes nodes with data from an earlier plan. They serve it only to peers that they know, and until then every
    read goes to the source.
    """
    idle = (plans[key].givers.idle for key in wanted if key in plans)
    return set[str]().union(*wanted.values(), *idle)


def _differs(entry: NodeDataset, there: NodeDataset | None) -> bool:
    return entry is not there and entry != there  # most are the same object, and a comparison takes long


def _sorted(entries: Entries) -> tuple[NodeDataset, ...]:
    return tuple(entries[uid] for uid in sorted(entries))


def _without(wanted: Entries, refused: Iterable[str], there: Entries) -> Entries:
    """Return the plan with the refused entries in their current state on the node."""
    kept = {uid: there[uid] for uid in refused if uid in there}
    return {uid: entry for uid, entry in wanted.items() if uid not in set(refused)} | kept


def found_in(nodes: Sequence[str], names: Iterable[str]) -> Iterator[str]:
    """Yield the names that are in the sorted ``nodes``, which may hold thousands."""
    for name in names:
        at = bisect_left(nodes, name)
        if at < len(nodes) and nodes[at] == name:
            yield name


def node_cache_key(node: str) -> str:
    """Return the key of the action that writes a node's plan."""
    return f"{_KEY}{node}"


def nodes_of(keys: Iterable[str]) -> list[str]:
    """Return the nodes whose plan keys are among ``keys``, sorted."""
    return sorted(key.removeprefix(_KEY) for key in keys if key.startswith(_KEY))
