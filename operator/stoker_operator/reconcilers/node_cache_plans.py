"""Writes what nodes should hold. A plan that the API server refuses is written without the Datasets that spoil it."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.backoff import Backoff
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache, NodeCacheSpec
from stoker_kube.errors import KubeError
from stoker_kube.events import ObjectRef
from stoker_operator.core.node_states import found_on_disk
from stoker_operator.core.plan import DatasetPlan, NodeCacheWrite
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.write_budget import WritePriority
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

# Answers by which the API server or a policy refuses what is written, too large for etcd (500) included.
_SPOILT = frozenset({400, 403, 413, 422, 500})
FIRST = 10.0  # seconds until a refused entry is tried again
LAST = 300.0

_KEY = "NodeCache "
Entries = dict[str, NodeDataset]  # by UID


@dataclass
class _Refusal:
    """An entry that a node's NodeCache does not take."""

    entry: NodeDataset
    sentence: str
    backoff: Backoff
    due: float


@dataclass(frozen=True, slots=True)
class _Wish:
    """The action of a write, and whether a listing waits for it."""

    write: NodeCacheWrite
    lists: bool
    action: KeyedAction


class NodeCachePlans:
    """The plans of all nodes; ``clock`` gives seconds since the epoch."""

    def __init__(
        self, writer: Writer, state: ClusterState, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """Prepare to write; ``wake()`` is called when an entry was refused or is taken again."""
        self._writer: Final = writer
        self._state: Final = state
        self._clock: Final = clock
        self._wake: Final = wake
        self._refused: Final[dict[str, dict[str, _Refusal]]] = {}  # node -> UID
        self._made: dict[str, _Wish] = {}  # of the last pass

    def actions(self, writes: Iterable[NodeCacheWrite], awaited: Collection[str] = ()) -> Iterator[KeyedAction]:
        """Return what would write the NodeCaches that differ; held pods wait for the nodes in ``awaited``.

        All nodes of a Dataset wait for the one that lists it.
        """
        before, self._made = self._made, {}
        for write in writes:
            node = write.node.name
            known = before.get(node)  # thousands may wait for the budget, and be wished for again in each pass
            lists = known.lists if known is not None and known.write is write else self._lists(write)
            priority = WritePriority.START if lists or node in awaited else WritePriority.PLAN
            if known is None or known.write is not write or known.action.priority is not priority:
                known = _Wish(write, lists, self._action(write, priority))
            self._made[node] = known
            yield known.action

    def _lists(self, write: NodeCacheWrite) -> bool:
        """Tell whether it asks the node for a listing that it has not been asked for yet."""
        asked = {entry.listing_id for entry in self._there(write.node.name).values()}
        return any(entry.listing_id and entry.listing_id not in asked for entry in write.spec.datasets)

    def _action(self, write: NodeCacheWrite, priority: WritePriority) -> KeyedAction:
        node = write.node.name
        about = ObjectRef(names.API_VERSION, NodeCache.KIND, node)
        # What it should say is the mark: a plan that changed is written at once, whatever became of the last one.
        act = partial(self._write, write)
        return KeyedAction(node_cache_key(node), "nodecache", node, act, write.spec, about, priority)

    def refuses(self) -> bool:
        """Tell whether any entry is refused anywhere."""
        return any(self._refused.values())

    def troubles(self, uid: str, nodes: Sequence[str]) -> Iterator[str]:
        """Say on which of the nodes, which are sorted, the entry of the Dataset of that UID is refused."""
        refusing = sorted(node for node, refused in self._refused.items() if uid in refused)
        for node in found_in(nodes, refusing):
            yield f"{node} cannot be given it: {self._refused[node][uid].sentence}"

    def keep_only(self, nodes: Mapping[str, object]) -> None:
        """Forget what was refused for nodes that are gone."""
        for node in [node for node in self._refused if node not in nodes]:
            del self._refused[node]

    async def _write(self, write: NodeCacheWrite) -> float | None:
        try:
            return await self._write_taken(write)
        finally:
            if not self._refused.get(write.node.name, True):
                del self._refused[write.node.name]  # of thousands few are refused anything

    async def _write_taken(self, write: NodeCacheWrite) -> float | None:
        """Write what is taken of it; gives seconds until what is refused is tried again."""
        node, now = write.node.name, self._clock()
        wanted = {entry.uid: entry for entry in write.spec.datasets}
        refused = self._refused.setdefault(node, {})
        for uid in [uid for uid, one in refused.items() if one.entry != wanted.get(uid)]:
            self._forgive(refused, uid)  # it changed, or is not wanted any more
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
        """Write what is there already, less what is to go, and then the rest in halves, to find what is refused."""
        there = self._there(write.node.name)
        base = {uid: entry for uid, entry in there.items() if uid in wanted}
        news = [uid for uid in wanted if wanted[uid] != base.get(uid) and uid not in waiting]
        if base != there or write.create:
            await self._put(write, base)  # if not even that is taken, it is the NodeCache's own trouble
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
        log.warning("node %s cannot be given Dataset %s/%s: %s", node, entry.namespace, entry.name, error.message)
        self._wake()

    def _forgive(self, refused: dict[str, _Refusal], uid: str) -> None:
        if refused.pop(uid, None) is not None:
            self._wake()

    def _there(self, node: str) -> Entries:
        """Return what the NodeCache says now, as far as is known."""
        cache = self._state.node_caches.get(node)
        return {entry.uid: entry for entry in cache.spec.datasets} if cache is not None else {}

    def _spec_there(self, node: str) -> NodeCacheSpec | None:
        """Return what the NodeCache says now, in the order of our plans."""
        cache = self._state.node_caches.get(node)
        return None if cache is None else cache.spec.model_copy(update={"datasets": _sorted(self._there(node))})

    def _spec(self, write: NodeCacheWrite, entries: Entries) -> NodeCacheSpec:
        """Return the plan with these entries alone; what was found on the disk and is refused is not cleaned for it."""
        cache = self._state.node_caches.get(write.node.name)
        lacking = {entry.uid for entry in write.spec.datasets}.difference(entries)
        found = lacking & found_on_disk(cache) if cache is not None and not write.spec.keep_unlisted else set()
        keep = tuple(sorted(found.union(write.spec.keep)))
        return write.spec.model_copy(update={"datasets": _sorted(entries), "keep": keep})

    async def _put(self, write: NodeCacheWrite, entries: Entries) -> None:
        cache = await self._writer.node_cache(replace(write, spec=self._spec(write, entries)))
        self._state.node_caches.put(cache.key, cache)


def awaited_nodes(wanted: Mapping[str, Collection[str]], plans: Mapping[str, DatasetPlan]) -> set[str]:
    """Return the nodes that held pods wait for; ``wanted``: by Dataset, those where the pods are to go.

    Nodes that have the data from earlier give it to nobody of whom they were not told, and the source would be asked
    meanwhile.
    """
    idle = (plans[key].givers.idle for key in wanted if key in plans)
    return set[str]().union(*wanted.values(), *idle)


def _sorted(entries: Entries) -> tuple[NodeDataset, ...]:
    return tuple(entries[uid] for uid in sorted(entries))


def _without(wanted: Entries, refused: Iterable[str], there: Entries) -> Entries:
    """Return the plan in which the refused entries are as they are on the node now."""
    kept = {uid: there[uid] for uid in refused if uid in there}
    return {uid: entry for uid, entry in wanted.items() if uid not in set(refused)} | kept


def found_in(nodes: Sequence[str], names: Iterable[str]) -> Iterator[str]:
    """Yield those of the names that are among ``nodes``, which are sorted: there may be thousands of those."""
    for name in names:
        at = bisect_left(nodes, name)
        if at < len(nodes) and nodes[at] == name:
            yield name


def node_cache_key(node: str) -> str:
    """Name the writing of a node's plan."""
    return f"{_KEY}{node}"


def nodes_of(keys: Iterable[str]) -> list[str]:
    """Return the nodes whose writing is among the keys, sorted."""
    return sorted(key.removeprefix(_KEY) for key in keys if key.startswith(_KEY))
