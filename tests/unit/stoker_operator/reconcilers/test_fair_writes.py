"""A namespace pays for the NodeCache writes that it causes: 300 nodes in virtual time."""

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_kube.events import EventRecorder
from stoker_operator.core.plans.plan import NodeCacheWrite
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.node_cache_plans import NodeCachePlans
from stoker_operator.writes.write_budget import RATE, WriteBudget
from stoker_operator.writes.writer import Writer
from tests.fakes.kube import FakeKube
from tests.support.present import present
from tests.support.virtual_time import run_virtual
from tests.unit.stoker_operator.builders import make_cache, make_node

NODES = [f"n{number:03}" for number in range(10 * int(RATE))]  # each toggle changes ten seconds of writes
SECONDS_OF_A_WRITE = 0.02
MOST_DELAY = 5.0


class SlowWriter(Writer):
    """Writes NodeCaches without an API server. Each write takes as long as in an idle API server."""

    async def node_cache(self, write: NodeCacheWrite):  # type: ignore[no-untyped-def]  # as the base class
        assert self.budget is not None
        self.budget.spend()
        await asyncio.sleep(SECONDS_OF_A_WRITE)
        return make_cache(write.node.name).model_copy(update={"spec": write.spec})


class Cluster:
    """Runs a pass over the plans of all nodes after each change. ``wanted``: entries by UID, by node."""

    def __init__(self) -> None:
        self.clock = asyncio.get_running_loop().time
        self.state = ClusterState("stoker")
        for node in NODES:
            self.state.node_caches.put(node, make_cache(node))
        writer = SlowWriter(FakeKube(), WriteBudget(RATE, self.clock))
        self.work = KeyedWork("test", self.clock, EventRecorder(FakeKube(), "test"), budget=writer.budget)
        self.plans = NodeCachePlans(writer, self.state, self.clock, self.work.wake)
        self.wanted: dict[str, dict[str, NodeDataset]] = {node: {} for node in NODES}
        self.made: dict[str, NodeCacheWrite] = {}
        self.awaited: list[str] = []  # nodes that gated pods wait for

    def change(self, entry: NodeDataset, nodes: Iterable[str] = NODES) -> None:
        """Add an entry to the plans of these nodes, and run a pass."""
        for node in nodes:
            self.wanted[node] = self.wanted[node] | {entry.uid: entry}
        self.work.take(self.plans.actions(list(self._writes()), self.awaited))

    def _writes(self) -> Iterable[NodeCacheWrite]:
        for node, entries in self.wanted.items():
            spec = NodeCacheSpec(datasets=tuple(entries[uid] for uid in sorted(entries)))
            known = self.made.get(node)
            if not self.is_told(node, entries):
                self.made[node] = known = known if known and known.spec == spec else _write(node, spec)
                yield known

    def told(self, node: str) -> tuple[NodeDataset, ...]:
        """Return the written plan of a node."""
        cache = present(self.state.node_caches.get(node))
        return cache.spec.datasets

    def is_told(self, node: str, entries: Mapping[str, NodeDataset]) -> bool:
        there = {entry.uid: entry for entry in self.told(node)}
        return all(there.get(uid) == entry for uid, entry in entries.items())


def _write(node: str, spec: NodeCacheSpec) -> NodeCacheWrite:
    return NodeCacheWrite(make_node(node), spec, create=False)


def entry(namespace: str, priority: int = 0) -> NodeDataset:
    source = {"uri": "s3://bucket/"}
    named = {"namespace": namespace, "name": "d", "uid": f"uid-{namespace}", "source": source, "priority": priority}
    return NodeDataset.model_validate(named)


async def seconds_until_told(nodes: list[str], toggled_for: int, held: int = 0) -> float:
    """Return the seconds until the victim's nodes have its plan, after ``toggled_for`` seconds of toggling.

    ``held``: gated pods of the toggling namespace, each with another node.
    """
    cluster, toggles = Cluster(), 0
    cluster.awaited = NODES[:held]
    mine, told_at = entry("victim"), None

    async def tick() -> None:
        nonlocal toggles
        if toggled_for:
            toggles += 1
            cluster.change(entry("evil", toggles % 2))
        await asyncio.sleep(1.0)

    for _ in range(toggled_for):
        await tick()
    began = cluster.clock()
    cluster.change(mine, nodes)
    while told_at is None:
        ticking = asyncio.create_task(tick())
        while not ticking.done() and told_at is None:
            if all(cluster.is_told(node, {mine.uid: mine}) for node in nodes):
                told_at = cluster.clock()
            await asyncio.sleep(0.05)
        await ticking
    await cluster.work.close()
    return told_at - began


@pytest.mark.parametrize(("count", "toggled_for", "held"), [(1, 60, 290), (20, 5, 0), (len(NODES), 30, 150)])
def test_a_dataset_toggled_every_second_delays_no_plan_of_another_namespace(
    count: int, toggled_for: int, held: int
) -> None:
    nodes = NODES[-count:]
    alone = run_virtual(seconds_until_told(nodes, 0))
    beside = run_virtual(seconds_until_told(nodes, toggled_for, held))
    print(f"{count} nodes, toggled for {toggled_for} s: {alone:.1f} s alone, {beside:.1f} s beside it")
    assert beside - alone <= MOST_DELAY


def test_a_namespace_that_toggles_is_not_starved() -> None:
    async def main() -> int:
        cluster = Cluster()
        for toggle in range(20):
            cluster.change(entry("evil", toggle % 2))
            cluster.change(entry("busy", toggle % 2), NODES[:10])
            await asyncio.sleep(1.0)
        await cluster.work.close()
        return sum(bool(cluster.told(node)) for node in NODES)

    assert run_virtual(main()) == len(NODES)
