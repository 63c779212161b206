"""A node forges its own status: other nodes' plans, readers of Secrets and versions do not change.

Two clusters see the same events. In one the node `evil` reports honestly, in the other it lies. Datasets of the pool
``b`` may not be placed on it. Unless a pod brought them to it, both clusters must decide the same about them.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.incremental.decision import IncrementalDecision
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.plans.credentials_rbac import KeptReaders, NamedCredentials, named_by
from stoker_operator.core.plans.listing import ListingState
from stoker_operator.core.views.cluster import PodView
from tests.model.stoker_operator.test_kept_decision import World, told, write
from tests.support.plain_decision import decide_plainly
from tests.unit.stoker_operator.builders import ROOM, SIZE, make_cache, make_dataset, make_node, mount

EVIL = "b-evil"  # names break ties: after the node of its own pool, before those of the second pool
GOOD = "a-good"
POOLS = {GOOD: "a", EVIL: "a", "far": "b", "farther": "b"}
FORGED = tuple(str(digit) * 64 for digit in range(5))
HOMES = st.sampled_from(["vision", "speech"])
NAMES = st.sampled_from(["s0", "s1", "s2", "s3"])
NODES = st.sampled_from(["", EVIL, EVIL, *POOLS])
PHASES = st.sampled_from(["Running", "Running", "Failed"])
PODS = st.integers(0, 4)
ERROR = {"reason": "DiskFull", "message": "forged", "temporary": False}


@dataclass
class Cluster:
    """A cluster and its leading operator."""

    lies: bool
    world: World = field(default_factory=World)
    kept: IncrementalDecision = field(default_factory=IncrementalDecision)
    readers: KeptReaders = field(default_factory=KeptReaders)
    reached: set[str] = field(default_factory=set)  # UIDs of Datasets that were ever assigned to evil
    asked_evil: set[str] = field(default_factory=set)  # UIDs of Datasets whose listing was ever requested from evil
    taken: dict[tuple[str, str], str] = field(default_factory=dict)  # by UID and listing: the version
    entries: dict[str, list[NodeDataset]] = field(default_factory=dict)
    statuses: dict[str, Any] = field(default_factory=dict)

    def step(self) -> None:
        """Let the operator decide and write, and check its decisions against the allowed ones."""
        world, kept, before = self.world, self.kept, set(self.reached)
        view = world.view()
        whole = decide_plainly(view, {}, world.now, asked=dict(kept.asked), chosen=dict(kept.chosen))
        decision = kept.decide(view, {}, world.now)
        assert told(decision, world) == told(whole, world)
        self.readers.update(decision.view, decision.plans, decision.changed)
        for plan in decision.plans.values():
            self._note(plan.dataset.metadata.uid, plan.listing)
        self._justify(decision, before)
        write(world, decision)
        self.entries = {name: list(cache.spec.datasets) for name, cache in world.caches.items()}
        self.statuses = {key: decision.status(key, "", (), world.now) for key in decision.plans}
        for key, status in self.statuses.items():
            world.datasets[key] = world.datasets[key].model_copy(update={"status": status})

    def _note(self, uid: str, listing: ListingState) -> None:
        """Check that only a node with a listing request decides about a version, and only once."""
        if listing.node == EVIL:
            self.asked_evil.add(uid)
        assert uid in self.asked_evil or listing.version not in FORGED
        if listing.answered_at:
            assert self.taken.setdefault((uid, listing.id), listing.version) == listing.version

    def _justify(self, decision: Decision, before: set[str]) -> None:
        """Check that evil has only Datasets from a pod, a placement or a listing, or earlier ones."""
        for plan in decision.plans.values():
            uid, role = plan.dataset.metadata.uid, plan.placement.roles.get(EVIL)
            if EVIL not in plan.readers():
                continue
            self.reached.add(uid)
            by_pod = any(runs_on_evil(pod, plan.dataset) for pod in self.world.pods.values())
            placed = role is Role.REPLICA and POOLS[EVIL] == pool_of(plan.dataset)
            assert uid in before or by_pod or placed or plan.listing.node == EVIL, (plan.dataset.key, role)

    def secret_readers(self, dataset: Dataset) -> frozenset[str]:
        (named,) = named_by(dataset.metadata.namespace, dataset.spec.source.credentials)
        assert isinstance(named, NamedCredentials)
        return self.readers.nodes(named)


def digest_of(listing: str) -> str:
    return sha256(listing.encode()).hexdigest()


def pool_of(dataset: Dataset) -> str:
    return dataset.spec.cache.node_selector["pool"]


def runs_on_evil(pod: PodView, dataset: Dataset) -> bool:
    admitted = pod.namespace == dataset.metadata.namespace or pod.namespace in dataset.spec.access.namespaces
    return pod.node == EVIL and dataset.key in pod.volumes and admitted and not pod.finished


def honest_status(world: World, node: str) -> NodeCacheStatus:
    """Return the honest status of a node that follows its plan."""
    rows, entries = [], world.caches[node].spec.datasets
    for entry in entries:
        said: dict[str, Any] = {"namespace": entry.namespace, "name": entry.name, "uid": entry.uid}
        said |= {"version": entry.version, "phase": "Warm" if entry.version and entry.eager else "Idle"}
        said |= {"files": 10, "bytes": SIZE, "warmBytes": SIZE if entry.eager else 0} if entry.version else {}
        if entry.listing_id:
            said["listing"] = {"id": entry.listing_id, "version": digest_of(entry.listing_id), "bytes": SIZE}
        rows.append(said)
    given = {f"{entry.namespace}/{entry.name}": entry.version for entry in entries}
    pods = [pod for pod in world.pods.values() if pod.node == node]
    mounts = [
        mount_row(world.datasets[key], pod, given[key], "Mounted" if given[key] else "Pending")
        for pod in pods
        for key in pod.volumes
        if key in world.datasets and key in given
    ]
    status = {"datasets": rows, "mounts": mounts, "availableBytes": ROOM, "inventory": True}
    return NodeCacheStatus.model_validate(status)


def mount_row(dataset: Dataset, pod: PodView, version: str, phase: str) -> dict[str, Any]:
    said = mount(dataset, pod.name, version, phase)
    return said | {"podNamespace": pod.namespace, "podUid": pod.uid, "volumeId": f"{pod.key}-{dataset.key}"}


def forged_status(pick: Random, world: World) -> NodeCacheStatus:
    """Return an arbitrary status of evil, except for its free room, by which it may get new Datasets."""
    honest, ids = honest_status(world, EVIL), listings(world)
    rows = {one.uid: one for one in honest.datasets if pick.random() < 0.5}
    for dataset in world.datasets.values():
        if pick.random() < 0.8:
            rows[dataset.metadata.uid] = forged_row(pick, dataset, ids)
    mounts = [one.wire() for one in honest.mounts if pick.random() < 0.5]
    strangers = [PodView(pick.choice(["vision", "speech", "evil"]), "ghost", uid="ghost", node=EVIL)]
    for dataset in world.datasets.values():
        for pod in (*world.pods.values(), *strangers):
            if pick.random() < 0.5:
                version = pick.choice([*FORGED, "", dataset.status.version, "no digest"])
                said = mount_row(dataset, pod, version, pick.choice(["Mounted", "Pending"]))
                mounts.append(said | {"podUid": pick.choice([pod.uid, pod.uid, "other", ""])})
    said = {"datasets": [one.wire() for one in rows.values()], "mounts": mounts, "availableBytes": ROOM}
    said |= {"address": pick.choice(["evil.example.com:443", "far:8081", ""]), "inventory": pick.random() < 0.5}
    return NodeCacheStatus.model_validate(said)


def listings(world: World) -> list[str]:
    given = (one.listing_id for cache in world.caches.values() for one in cache.spec.datasets)
    return ["made-up-1", *(one for one in given if one)]


def forged_row(pick: Random, dataset: Dataset, ids: list[str]) -> NodeDatasetStatus:
    versions = [*FORGED, dataset.status.version]
    said: dict[str, Any] = {"namespace": dataset.metadata.namespace, "name": dataset.metadata.name}
    said |= {"uid": dataset.metadata.uid, "version": pick.choice(versions), "files": pick.choice([0, 10, 10**9])}
    said |= {"bytes": pick.choice([0, SIZE, 2**62]), "warmBytes": pick.choice([0, SIZE, 2**62])}
    said |= {"phase": pick.choice(list(NodePhase)), "retained": pick.sample(versions, 2)}
    listing: dict[str, Any] = {"id": pick.choice(ids), "version": pick.choice(FORGED), "files": 1, "bytes": 2**40}
    said |= {"listing": listing | ({"error": ERROR, "version": ""} if pick.random() < 0.2 else {})}
    older = [{"version": one, "phase": "Warm", "bytes": 1, "warmBytes": 1} for one in pick.sample(versions, 1)]
    said |= {"older": older, "error": ERROR if pick.random() < 0.5 else None}
    return NodeDatasetStatus.model_validate(said)


class NodeReports(RuleBasedStateMachine):
    """The two clusters."""

    both: ClassVar[tuple[bool, bool]] = (False, True)

    @initialize(blind=st.booleans())
    def starts(self, blind: bool) -> None:
        self.clusters = [Cluster(lies) for lies in self.both]
        self.born = 0
        for one in self.clusters:
            one.world.nodes = {name: make_node(name, labels={"pool": pool}) for name, pool in POOLS.items()}
            one.world.caches = {name: make_cache(name) for name in POOLS}
            evil = one.world.caches[EVIL]
            spec = evil.spec.model_copy(update={"keep_unlisted": blind})
            one.world.caches[EVIL] = evil.model_copy(update={"spec": spec})

    @rule(name=NAMES, home=HOMES, pool=st.sampled_from("ab"), replicas=st.integers(0, 2), shared=st.booleans())
    def a_dataset_comes(self, name: str, home: str, pool: str, replicas: int, shared: bool) -> None:
        self.born += 1
        access = {"namespaces": ["speech", "vision"] if shared else []}
        source = {"uri": "s3://bucket/", "credentials": {"secretRef": {"name": f"keys-{self.born}"}}}
        cache = {"replicas": replicas, "nodeSelector": {"pool": pool}}
        meta: dict[str, Any] = {
            "namespace": home,
            "uid": f"uid-{self.born}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        made = make_dataset(name, access=access, source=source, cache=cache, **meta)
        for one in self.clusters:
            one.world.datasets[made.key] = made

    @rule(home=HOMES, name=NAMES)
    def a_dataset_goes(self, home: str, name: str) -> None:
        for one in self.clusters:
            known = one.world.datasets.get(f"{home}/{name}")
            if known is not None:
                meta = known.metadata.model_copy(update={"deletion_timestamp": "2026-02-01T00:00:00Z"})
                one.world.datasets[known.key] = known.model_copy(update={"metadata": meta})

    @rule(home=HOMES, number=PODS, node=NODES, data=st.tuples(HOMES, NAMES), phase=PHASES)
    def a_pod_comes(self, home: str, number: int, node: str, data: tuple[str, str], phase: str) -> None:
        self.born += 1
        volumes = ("/".join(data),)
        pod = PodView(home, f"p{number}", uid=f"pod-{self.born}", node=node, volumes=volumes, phase=phase)
        for one in self.clusters:
            one.world.pods[pod.key] = pod

    @rule(home=HOMES, number=PODS)
    def a_pod_goes(self, home: str, number: int) -> None:
        for one in self.clusters:
            one.world.pods.pop(f"{home}/p{number}", None)

    @rule()
    def the_good_node_goes_or_comes_back(self) -> None:
        for one in self.clusters:
            node = one.world.nodes[GOOD]
            since = one.world.now - 1000.0 if node.ready else 0.0
            one.world.nodes[GOOD] = replace(node, ready=not node.ready, not_ready_since=since)

    @rule(seed=st.integers(0, 2**32), seconds=st.sampled_from([0.0, 1.0, 61.0, 400.0]))
    def nodes_report_and_the_operator_acts(self, seed: int, seconds: float) -> None:
        for one in self.clusters:
            one.world.now += seconds
            for name, cache in one.world.caches.items():
                lies = one.lies and name == EVIL
                status = forged_status(Random(seed), one.world) if lies else honest_status(one.world, name)
                one.world.caches[name] = cache.model_copy(update={"status": status})
            one.step()
        self.say_the_same()

    def say_the_same(self) -> None:
        honest, lying = self.clusters
        reached = honest.reached | lying.reached
        for key, dataset in honest.world.datasets.items():
            if pool_of(dataset) == POOLS[EVIL] or dataset.metadata.uid in reached:
                continue
            uid = dataset.metadata.uid
            for node in POOLS:
                found = [[one for one in side.entries[node] if one.uid == uid] for side in self.clusters]
                assert found[0] == found[1], (node, key)
            assert honest.statuses.get(key) == lying.statuses.get(key)
            assert honest.secret_readers(dataset) == lying.secret_readers(dataset)
            assert EVIL not in lying.secret_readers(dataset)


TestNodeReports = NodeReports.TestCase
TestNodeReports.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
