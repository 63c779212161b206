"""State kept between passes gives the same decisions as a full computation, for any changes in between."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.datasets.origin import OriginShare
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_operator.core.classes.class_limits import ClassTerms
from stoker_operator.core.classes.tuning import ClusterTuning
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.incremental.decision import AskedAnew, IncrementalDecision
from stoker_operator.core.origins.origin_ledger import NO_SHARES, OriginShares
from stoker_operator.core.peers.peer_groups import PeerSettings
from stoker_operator.core.plans.listing import new_id
from stoker_operator.core.plans.plan import DatasetPlan
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset, NodeView, PodView, Taint
from tests.support.plain_decision import decide_plainly
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    V1,
    V2,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    make_view,
    mount,
    report,
)
from tests.unit.stoker_operator.builders import given as entry_of
from tests.unit.stoker_operator.training import training_job

T = TypeVar("T")
NODES = ("a", "b", "c", "d", "e")
NAMES = ("s0", "s1", "s2", "s3")
HOMES = st.sampled_from(["vision", "speech"])
EXPRESSIONS = (
    {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
    {"key": "size", "operator": "Gt", "values": ["1"]},
    {"key": "zone", "operator": "Exists"},
)
ROOMS = (10**6, SIZE, 2 * SIZE, 100, -50)  # free bytes of a node
TERMS = (
    ClassTerms(),
    ClassTerms("small", namespace_quota=3 * SIZE),
    ClassTerms("tight", node_quota=SIZE + 100),
    ClassTerms("few", most_replicas=1),
)


Seen = dict[str, tuple[DatasetPlan, DatasetStatus]]


@dataclass
class World:
    """The cluster after a sequence of changes."""

    now: float = NOW
    datasets: dict[str, Dataset] = field(default_factory=dict)
    invalid: dict[str, InvalidDataset] = field(default_factory=dict)
    terms: dict[str, ClassTerms] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    caches: dict[str, NodeCache] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    jobs: dict[str, TrainingJob] = field(default_factory=dict)
    tuning: ClusterTuning = field(default_factory=ClusterTuning)
    shares: OriginShares = NO_SHARES
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
            training_jobs=dict(self.jobs),
            tuning=self.tuning,
            peer_settings=PeerSettings(rack_label="zone"),
            shares=self.shares,
        )

    def may_be_given(self, plan: DatasetPlan) -> bool:
        return plan.dataset.key not in self.closed


def draw_dataset(pick: Random, name: str) -> Dataset:
    replicas = pick.choice([0, 1, 2, 3, "all", "20%", "50%", "100%"])
    warm: dict[str, Any] = {"priority": pick.choice([0, 0, 5])}
    if pick.randint(0, 5) == 0:
        warm["nodes"] = pick.sample(NODES, pick.randint(1, 3))
    if pick.randint(0, 3) == 0:
        warm["policy"] = pick.choice(["OnDemand", "Manual"])
    if pick.randint(0, 4) == 0:
        due = format_time(NOW + pick.choice([-100, 20, 500]))
        warm["deadline"] = pick.choice([{"at": due}, {"daily": due[11:16]}])
    cache: dict[str, Any] = {"replicas": replicas, "pinned": pick.randint(0, 4) == 0}
    if pick.randint(0, 3) == 0:
        cache["nodeSelector"] = {"disk": "ssd"}
    if pick.randint(0, 3) == 0:
        cache["matchExpressions"] = [pick.choice(EXPRESSIONS)]
    if pick.randint(0, 3) == 0:
        cache["tolerations"] = pick.choice([[], [{"key": "x", "operator": "Exists"}]])
    if pick.randint(0, 2) == 0:
        action = pick.choice(["DoNotSchedule", "ScheduleAnyway"])
        cache["topologySpread"] = {"topologyKey": "zone", "maxSkew": pick.choice([1, 2]), "whenUnsatisfiable": action}
    meta: dict[str, Any] = {"creationTimestamp": f"2026-01-0{pick.randint(1, 5)}T00:00:00Z"}
    if pick.randint(0, 7) == 0:
        meta["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    refresh = {"policy": "Follow", "interval": "5m"} if pick.randint(0, 3) == 0 else {}
    access = {"namespaces": pick.choice([[], ["speech"], ["*"]])}
    made = make_dataset(name, access=access, cache=cache, warm=warm, refresh=refresh, **meta)
    if pick.randint(0, 3):
        made = listed(made, pick.choice([V1, V2]), pick.choice([SIZE, SIZE, 3 * SIZE]))
        status: dict[str, Any] = {"listing_id": new_id(made, NOW - 60), "listing_node": pick.choice(NODES)}
        status |= {"listed_at": "2027-01-15T07:59:30.000Z"}
        status |= {"share_of_nodes": pick.choice([None, 1, 2, 4]), "observed_generation": pick.choice([0, 1])}
        made = made.model_copy(update={"status": made.status.model_copy(update=status)})
    return made


def draw_cache(pick: Random, world: World, name: str) -> NodeCache:
    old = world.caches.get(name)
    rows: list[tuple[NodeDataset | None, NodeDatasetStatus | None]] = []
    for dataset in world.datasets.values():
        kind = pick.choice(["none", "cold", "part", "warm", "warm", "failed", "only row", "kept"])
        before = next((one for one in old.spec.datasets if one.uid == dataset.metadata.uid), None) if old else None
        entry = before or entry_of(dataset, eager=pick.random() < 0.5)
        match kind:
            case "cold":
                rows.append((entry, None))
            case "part":
                rows.append((entry, report(dataset, pick.choice([0, 100, 700]), eta_seconds=5)))
            case "warm":
                rows.append((entry, report(dataset, **_answer(entry.listing_id))))
            case "failed":
                error = {"reason": "DiskFull", "message": "no room", "temporary": pick.random() < 0.5}
                rows.append((entry, report(dataset, 100, phase=NodePhase.FAILED, error=error)))
            case "only row":
                rows.append((None, report(dataset, version=V2, retained=(V1,))))
            case "kept" if before is not None:
                rows.append((before, report(dataset, 700, retained=(V2,))))
    users = [one for one in world.datasets.values() if pick.randint(0, 4) == 0]
    phases = ["Mounted", "Mounted", "Pending"]
    mounts = tuple(mount(one, f"p{pick.randint(0, 3)}", pick.choice([V1, V2]), pick.choice(phases)) for one in users)
    made = make_cache(name, *rows, room=pick.choice(ROOMS), mounts=mounts)
    if pick.randint(0, 9) == 0:
        made = made.model_copy(update={"spec": made.spec.model_copy(update={"keep_unlisted": True})})
    if pick.randint(0, 9) == 0:
        made = made.model_copy(update={"status": made.status.model_copy(update={"address": f"{name}.other:1"})})
    return made


def _answer(listing_id: str) -> dict[str, Any]:
    return {"listing": {"id": listing_id, "version": V1, "files": 10, "bytes": SIZE}} if listing_id else {}


def change(pick: Random, world: World) -> None:
    name, node = pick.choice(NAMES), pick.choice(NODES)
    key = f"vision/{name}"
    kinds = ["dataset", "cache", "cache", "row", "row", "room", "room", "revoked", "node", "pod", "wanted", "time"]
    kinds += ["time", "terms", "invalid", "gone", "closed", "job", "tuning", "shares"]
    match pick.choice(kinds):
        case "dataset":
            world.datasets[key] = draw_dataset(pick, name)
            world.invalid.pop(key, None)
        case "invalid" if key in world.datasets:
            old = world.datasets.pop(key)
            world.invalid[key] = InvalidDataset(old.metadata, "it is odd", old.status, closed=pick.random() < 0.5)
        case "cache":
            world.caches[node] = draw_cache(pick, world, node)
        case "room" | "revoked" | "row" as what if node in world.caches:
            world.caches[node] = with_other(pick, world.caches[node], what)
        case "node":
            world.nodes[node] = draw_node(pick, node, world.now)
        case "pod":
            pod = pick.randint(0, 3)
            where = pick.choice(["", *NODES])
            volumes = tuple(f"vision/{one}" for one in pick.sample(NAMES, pick.randint(0, 2)))
            home = pick.choice(["vision", "vision", "speech"])
            versions = dict.fromkeys(volumes, V2) if pick.randint(0, 3) == 0 else {}
            made = PodView(home, f"p{pod}", node=where, volumes=volumes, versions=versions)
            claims, labels = (pick.choice(NAMES),), {names.LABEL_TRAINING_JOB: "ddp"}
            made = pick.choice([made, replace(made, claims=claims), replace(made, labels=labels)])
            world.pods[made.key] = replace(made, phase=pick.choice(["Running", "Running", "Succeeded"]))
        case "wanted":
            world.wanted[key] = frozenset(pick.sample(NODES, pick.randint(0, 2)))
            world.versions[key] = {node: frozenset({V2})} if pick.random() < 0.5 else {}
        case "job":
            world.jobs["vision/ddp"] = draw_job(pick)
        case "tuning":
            world.tuning = ClusterTuning(enabled=pick.random() < 0.5, default=pick.choice(["", "slow"]))
        case "shares":
            world.shares = draw_shares(pick)
        case "terms":
            world.terms[key] = pick.choice(TERMS)
        case "closed":
            world.closed ^= {key}
        case "time":
            world.now += pick.choice([1.0, 30.0, 400.0])
        case "gone":
            table: Any = pick.choice(
                [world.datasets, world.invalid, world.nodes, world.caches, world.pods, world.terms, world.jobs]
            )
            if table:
                del table[pick.choice(sorted(table))]


def draw_shares(pick: Random) -> OriginShares:
    """Make the rate limits of the Datasets' bucket, for each node and in total."""
    rows = [OriginShare(name=name, bytes_per_second=pick.choice([10, 20])) for name in ("s3://bucket", "*")]
    beginning = {row.name: row for row in rows if pick.random() < 0.5}
    by_node = {node: {rows[0].name: rows[0]} for node in NODES if pick.random() < 0.3}
    return OriginShares(beginning, by_node, frozenset({"s3://bucket"} if pick.random() < 0.5 else ()))


def with_other(pick: Random, cache: NodeCache, what: str) -> NodeCache:
    """Return a NodeCache with a single changed field."""
    rows = cache.status.datasets
    update: dict[str, Any] = {"available_bytes": pick.choice(ROOMS)}
    if what == "revoked":
        annotations = pick.choice([{}, {names.ANNOTATION_PEERS: "Off"}])
        return cache.model_copy(update={"metadata": cache.metadata.model_copy(update={"annotations": annotations})})
    if what == "row" and rows:
        at = pick.randrange(len(rows))
        other = rows[at].model_copy(
            update={"warm_bytes": pick.choice([0, 10, 500]), "retained": pick.choice([(), (V2,)])}
        )
        update = {"datasets": (*rows[:at], other, *rows[at + 1 :])}
    return cache.model_copy(update={"status": cache.status.model_copy(update=update)})


def draw_job(pick: Random) -> TrainingJob:
    """Make a TrainingJob that may be queued, pin versions, and set tuning."""
    status: dict[str, Any] = {"phase": pick.choice(["Suspended", "Running", "Succeeded"])}
    status["datasets"] = [{"namespace": "vision", "name": pick.choice(NAMES), "version": pick.choice([V1, V2])}]
    datasets = [{"name": pick.choice(NAMES), "mountPath": "/data"}]
    return training_job(status=status, datasets=datasets, tuning={"enabled": False} if pick.random() < 0.5 else {})


def draw_node(pick: Random, name: str, now: float) -> NodeView:
    labels = {"disk": pick.choice(["ssd", "hdd"]), "size": pick.choice("12")}
    zone = pick.choice(["", "east", "west"])
    zones = {"zone": zone, "topology.kubernetes.io/zone": pick.choice([zone, "north"])} if zone else {}
    node = make_node(name, labels=labels | zones)
    match pick.choice(["fine", "fine", "silent", "cordoned", "tainted", "no sidecar", "leaving"]):
        case "leaving":
            return replace(node, leaving="it has the taint x", ready=pick.random() < 0.7, not_ready_since=now)
        case "silent":
            return replace(node, ready=False, not_ready_since=now - pick.choice([0.0, 200.0, 400.0]))
        case "cordoned":
            return replace(node, schedulable=False)
        case "tainted":
            return replace(node, taints=(Taint(pick.choice("xy"), "", pick.choice(["NoSchedule", "NoExecute"])),))
        case "no sidecar":
            return replace(node, sidecar_ready=False)
    return node


def write(world: World, decision: Decision) -> None:
    """Apply the decisions to the existing NodeCaches."""
    for one in decision.nodes.writes:
        old = world.caches.get(one.node.name) or make_cache(one.node.name)
        world.caches[one.node.name] = old.model_copy(update={"spec": one.spec})


def told(decision: Decision, world: World) -> dict[str, Any]:
    """Return all results of a decision, for a comparison."""
    return {
        "plans": dict(decision.plans),
        "writes": decision.nodes.writes,
        "left out": {uid: list(nodes) for uid, nodes in decision.nodes.left_out.items()},
        "deletions": dict(decision.deletions),
        "again": decision.look_again,
        "statuses": {key: decision.status(key, "", (), world.now) for key in decision.plans},
        "spoiled": dict(decision.spoiled),
    }


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), passes=st.integers(1, 12))
def test_what_is_kept_comes_to_the_same_as_deciding_anew(seed: int, passes: int) -> None:
    pick, world, kept = Random(seed), new_world(seed), IncrementalDecision()
    seen: Seen = {}
    closed = set[str]()
    for _ in range(passes):
        arguments = (world.view(), dict(world.wanted), world.now, world.may_be_given, dict(world.versions))
        whole = decide_plainly(*arguments, asked=dict(kept.asked), chosen=dict(kept.chosen))
        reopened, closed = closed ^ world.closed, set(world.closed)
        decision = kept.decide(*arguments, _asked_anew(pick, reopened))
        found, wanted = told(decision, world), told(whole, world)
        for part in wanted:
            assert found[part] == wanted[part], part
        seen = unchanged_plans_say_the_same(decision, seen)
        if pick.random() < 0.5:
            write(world, whole)
        for _ in range(pick.randint(0, 3)):
            change(pick, world)


def _asked_anew(pick: Random, keys: set[str]) -> AskedAnew:
    """Return a random answer to the question which plans may have changed: these Datasets, or None for unknown."""
    return lambda: keys if pick.random() < 0.8 else None


def unchanged_plans_say_the_same(decision: Decision, before: Seen) -> Seen:
    """Check that unchanged plan objects give unchanged statuses, because the operator does not compute them again."""
    now = {key: (plan, decision.status(key, "", (), NOW)) for key, plan in decision.plans.items()}
    for key, (plan, status) in now.items():
        if key in before and before[key][0] is plan:
            assert status == before[key][1]
    return now


def new_world(seed: int) -> World:
    """Make a cluster with many different states at once."""
    pick, world = Random(seed), World()
    world.nodes = {name: draw_node(pick, name, world.now) for name in NODES}
    world.datasets = {f"vision/{name}": draw_dataset(pick, name) for name in NAMES}
    if pick.random() < 0.4:
        world.terms = {key: pick.choice(TERMS) for key in world.datasets}
    world.caches = {name: draw_cache(pick, world, name) for name in NODES}
    for _ in range(pick.randint(0, 10)):
        change(pick, world)
    return world


def agrees(*views: ClusterView) -> None:
    """Compare the kept state with a full computation, for one view after the other."""
    kept, world = IncrementalDecision(), World()
    for view in views:
        whole = decide_plainly(view, {}, NOW, asked=dict(kept.asked), chosen=dict(kept.chosen))
        decision = kept.decide(view, {}, NOW)
        assert told(decision, world) == told(whole, world)


def test_a_node_that_lists_is_told_of_a_dataset_that_is_cleaned_no_longer() -> None:
    status = {"listingId": f"2.x-{int(NOW * 1000)}", "listingNode": "a"}
    dataset = make_dataset(status=status, deletionTimestamp="2026-02-01T00:00:00Z", cache={"replicas": 0})
    unused = make_view(dataset, make_node("a"))
    agrees(unused, make_view(dataset, make_node("a"), PodView("vision", "p", volumes=("vision/imagenet",))))


def test_nodes_are_told_when_a_training_job_has_no_word_any_more() -> None:
    dataset = listed(make_dataset())
    pod = PodView("vision", "p", node="a", volumes=("vision/imagenet",), labels={names.LABEL_TRAINING_JOB: "ddp"})
    parts = (dataset, make_node("a"), make_cache("a"), pod)
    agrees(make_view(*parts, training_job(tuning={"enabled": False})), make_view(*parts))


@pytest.mark.parametrize(("idle", "new"), [(300, 100), (SIZE, SIZE)], ids=["it is gone there", "all have it"])
def test_nodes_are_told_when_idle_data_is_asked_for_no_more(idle: int, new: int) -> None:
    dataset = listed(make_dataset(cache={"replicas": 0}))
    pod = PodView("vision", "p", node="b", volumes=("vision/imagenet",))
    parts = (dataset, make_node("a"), make_node("b"), pod)
    agrees(
        *(
            make_view(*parts, make_holder("a", dataset, a), make_holder("b", dataset, b))
            for a, b in ((SIZE, 100), (idle, new))
        )
    )


def test_a_node_that_withdraws_its_address_before_the_first_listing_is_nobodys_peer() -> None:
    status = {"listingId": new_id(make_dataset(), NOW - 1), "listingNode": "a"}
    dataset, nodes = make_dataset(status=status, cache={"replicas": "all"}), (make_node("a"), make_node("b"))
    lists = make_cache("a", (entry_of(dataset, listing_id=status["listingId"]), None))
    cache = make_cache("b")
    off = cache.metadata.model_copy(update={"annotations": {names.ANNOTATION_PEERS: "Off"}})
    agrees(
        make_view(dataset, *nodes, lists), make_view(dataset, *nodes, lists, cache.model_copy(update={"metadata": off}))
    )
