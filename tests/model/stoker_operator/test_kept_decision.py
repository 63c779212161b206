"""What is kept from pass to pass comes to the same as deciding about everything anew, whatever changes in between."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.dataset import Dataset
from stoker_api.nodecache import NodeCache, NodePhase
from stoker_operator.core.class_limits import ClassTerms
from stoker_operator.core.dataset_decision import Decision, decide_datasets
from stoker_operator.core.kept_decision import KeptDecision
from stoker_operator.core.listing import new_id
from stoker_operator.core.plan import DatasetPlan
from stoker_operator.core.views import ClusterView, InvalidDataset, NodeView, PodView, Taint
from tests.unit.stoker_operator.builders import NOW, SIZE, V1, V2, given as entry_of
from tests.unit.stoker_operator.builders import listed, make_cache, make_dataset, make_node, mount, report

NODES = ("a", "b", "c", "d", "e")
NAMES = ("s0", "s1", "s2", "s3")
HOMES = st.sampled_from(["vision", "speech"])
TERMS = (ClassTerms(), ClassTerms("small", namespace_quota=3 * SIZE), ClassTerms("tight", node_quota=SIZE + 100))


@dataclass
class World:
    """The cluster as a sequence of changes left it."""

    now: float = NOW
    datasets: dict[str, Dataset] = field(default_factory=dict)
    invalid: dict[str, InvalidDataset] = field(default_factory=dict)
    terms: dict[str, ClassTerms] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    caches: dict[str, NodeCache] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    wanted: dict[str, frozenset[str]] = field(default_factory=dict)
    versions: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

    def view(self) -> ClusterView:
        return ClusterView(
            datasets=dict(self.datasets),
            terms=dict(self.terms),
            invalid_datasets=dict(self.invalid),
            node_caches=dict(self.caches),
            nodes=dict(self.nodes),
            pods=dict(self.pods),
        )

    def may_be_given(self, plan: DatasetPlan) -> bool:
        return plan.dataset.key not in self.closed


def draw_dataset(draw: st.DrawFn, name: str) -> Dataset:
    replicas = draw(st.sampled_from([0, 1, 2, 3, "all"]))
    warm: dict[str, Any] = {"priority": draw(st.sampled_from([0, 0, 5]))}
    if draw(st.integers(0, 5)) == 0:
        warm["nodes"] = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True))
    if draw(st.integers(0, 3)) == 0:
        warm["policy"] = draw(st.sampled_from(["OnDemand", "Manual"]))
    cache: dict[str, Any] = {"replicas": replicas, "pinned": draw(st.integers(0, 4)) == 0}
    if draw(st.integers(0, 3)) == 0:
        cache["nodeSelector"] = {"disk": "ssd"}
    meta: dict[str, Any] = {"creationTimestamp": f"2026-01-0{draw(st.integers(1, 5))}T00:00:00Z"}
    if draw(st.integers(0, 7)) == 0:
        meta["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    refresh = {"policy": "Follow", "interval": "5m"} if draw(st.integers(0, 3)) == 0 else {}
    made = make_dataset(name, cache=cache, warm=warm, refresh=refresh, **meta)
    if draw(st.integers(0, 3)):
        made = listed(made, draw(st.sampled_from([V1, V2])), draw(st.sampled_from([SIZE, SIZE, 3 * SIZE])))
        status = {"listing_id": new_id(made, NOW - 60), "listing_node": draw(st.sampled_from(NODES))}
        status |= {"listed_at": "2027-01-15T07:59:30.000Z"}
        made = made.model_copy(update={"status": made.status.model_copy(update=status)})
    return made


def draw_cache(draw: st.DrawFn, world: World, name: str) -> NodeCache:
    old = world.caches.get(name)
    rows = []
    for dataset in world.datasets.values():
        kind = draw(st.sampled_from(["none", "cold", "part", "warm", "warm", "failed", "only row", "kept"]))
        before = next((one for one in old.spec.datasets if one.uid == dataset.metadata.uid), None) if old else None
        entry = before or entry_of(dataset, eager=draw(st.booleans()))
        match kind:
            case "cold":
                rows.append((entry, None))
            case "part":
                rows.append((entry, report(dataset, draw(st.sampled_from([0, 100, 700])), eta_seconds=5)))
            case "warm":
                rows.append((entry, report(dataset, **_answer(entry.listing_id))))
            case "failed":
                error = {"reason": "DiskFull", "message": "no room", "temporary": draw(st.booleans())}
                rows.append((entry, report(dataset, 100, phase=NodePhase.FAILED, error=error)))
            case "only row":
                rows.append((None, report(dataset, version=V2, retained=(V1,))))
            case "kept" if before is not None:
                rows.append((before, report(dataset, 700, retained=(V2,))))
    users = [one for one in world.datasets.values() if draw(st.integers(0, 4)) == 0]
    mounts = tuple(mount(one, f"p{draw(st.integers(0, 3))}", draw(st.sampled_from([V1, V2]))) for one in users)
    made = make_cache(name, *rows, room=draw(st.sampled_from([10**6, SIZE, 2 * SIZE, 100, -50])), mounts=mounts)
    if draw(st.integers(0, 9)) == 0:
        made = made.model_copy(update={"spec": made.spec.model_copy(update={"keep_unlisted": True})})
    if draw(st.integers(0, 9)) == 0:
        made = made.model_copy(update={"status": made.status.model_copy(update={"address": f"{name}.other:1"})})
    return made


def _answer(listing_id: str) -> dict[str, Any]:
    return {"listing": {"id": listing_id, "version": V1, "files": 10, "bytes": SIZE}} if listing_id else {}


def change(draw: st.DrawFn, world: World) -> None:
    name, node = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NODES))
    key = f"vision/{name}"
    kinds = ["dataset", "cache", "cache", "cache", "node", "pod", "wanted", "time", "terms", "invalid", "gone", "closed"]
    match draw(st.sampled_from(kinds)):
        case "dataset":
            world.datasets[key] = draw_dataset(draw, name)
            world.invalid.pop(key, None)
        case "invalid" if key in world.datasets:
            old = world.datasets.pop(key)
            world.invalid[key] = InvalidDataset(old.metadata, "it is odd", old.status, closed=draw(st.booleans()))
        case "cache":
            world.caches[node] = draw_cache(draw, world, node)
        case "node":
            world.nodes[node] = draw_node(draw, node, world.now)
        case "pod":
            pod = draw(st.integers(0, 3))
            where = draw(st.sampled_from(["", *NODES]))
            volumes = tuple(draw(st.lists(st.sampled_from([f"vision/{one}" for one in NAMES]), max_size=2)))
            home = draw(st.sampled_from(["vision", "vision", "speech"]))
            versions = dict.fromkeys(volumes, V2) if draw(st.integers(0, 3)) == 0 else {}
            world.pods[f"{home}/p{pod}"] = PodView(home, f"p{pod}", node=where, volumes=volumes, versions=versions)
        case "wanted":
            world.wanted[key] = frozenset(draw(st.lists(st.sampled_from(NODES), max_size=2)))
            world.versions[key] = {node: frozenset({V2})} if draw(st.booleans()) else {}
        case "terms":
            world.terms[key] = draw(st.sampled_from(TERMS))
        case "closed":
            world.closed ^= {key}
        case "time":
            world.now += draw(st.sampled_from([1.0, 30.0, 400.0]))
        case "gone":
            table: Any = draw(st.sampled_from([world.datasets, world.nodes, world.caches, world.pods, world.terms]))
            if table:
                del table[draw(st.sampled_from(sorted(table)))]


def draw_node(draw: st.DrawFn, name: str, now: float) -> NodeView:
    node = make_node(name, labels={"disk": draw(st.sampled_from(["ssd", "hdd"]))})
    match draw(st.sampled_from(["fine", "fine", "silent", "cordoned", "tainted", "no sidecar"])):
        case "silent":
            return replace(node, ready=False, not_ready_since=now - draw(st.sampled_from([0.0, 200.0, 400.0])))
        case "cordoned":
            return replace(node, schedulable=False)
        case "tainted":
            return replace(node, taints=(Taint("x", "", "NoSchedule"),))
        case "no sidecar":
            return replace(node, sidecar_ready=False)
    return node


def answer(work: Generator[None, None, Decision]) -> Decision:
    """Take all steps of a decision."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value


def write(world: World, decision: Decision) -> None:
    """Let nodes be told what was decided, as far as their NodeCaches exist."""
    for one in decision.nodes.writes:
        old = world.caches.get(one.node.name) or make_cache(one.node.name)
        world.caches[one.node.name] = old.model_copy(update={"spec": one.spec})


def told(decision: Decision, world: World) -> dict[str, Any]:
    """Return all that comes of a decision, for a comparison."""
    return {
        "plans": dict(decision.plans),
        "writes": decision.nodes.writes,
        "left out": {uid: list(nodes) for uid, nodes in decision.nodes.left_out.items()},
        "deletions": dict(decision.deletions),
        "again": decision.look_again,
        "statuses": {key: decision.status(key, "", (), world.now) for key in decision.plans},
        "spoiled": dict(decision.spoiled),
    }


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_kept_comes_to_the_same_as_deciding_anew(data: st.DataObject) -> None:
    world, kept = World(), KeptDecision()

    @st.composite
    def changes(draw: st.DrawFn, count: int) -> None:
        for _ in range(count):
            change(draw, world)

    data.draw(changes(data.draw(st.integers(0, 25))))
    for _ in range(data.draw(st.integers(1, 6))):
        arguments = (world.view(), dict(world.wanted), world.now, world.may_be_given, dict(world.versions))
        whole = decide_datasets(*arguments)
        found = told(answer(kept.decide(*arguments)), world)
        wanted = told(whole, world)
        for part in wanted:
            assert found[part] == wanted[part], part
        if data.draw(st.booleans()):
            write(world, whole)
        data.draw(changes(data.draw(st.integers(0, 3))))
