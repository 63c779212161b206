"""Incremental gating decisions equal those of a full pass, for any changes in any order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import Condition
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time, parse_time
from stoker_operator.core.fitting import node_bits
from stoker_operator.core.gating import gate_index
from stoker_operator.core.gating.explain import Explanation
from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.gating.releases import Outcome
from stoker_operator.core.kueue import kueue_objects as expected
from stoker_operator.core.views.cluster import ClusterView, NodeView, PodView, Taint
from stoker_operator.core.views.resources import Resources
from tests.support.plain_gating import PlainOutcome, decide_plainly
from tests.unit.stoker_operator.clusters import GIB, VERSION, dataset, held, node
from tests.unit.stoker_operator.releases import decided_by
from tests.unit.stoker_operator.training import training_job

SETS = st.sampled_from(["imagenet", "coco"])
UIDS = ("imagenet", "coco")
NODES = st.sampled_from([f"n{number}" for number in (1, 5, 2, 4, 3)])
SHARES = st.sampled_from([1.0, 1.0, 0.5, 0.75, 0.0, None])
SILENT = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")
OTHER_GATE = "kueue.x-k8s.io/admission"
BOOKED = 60.0
MOST_EXPECTED = 4  # workers of queued jobs: three jobs have more
RARELY = st.integers(0, 9).map(lambda number: number == 9)


class FollowingChanges(RuleBasedStateMachine):
    """A cluster, its incremental gating, and the decisions about gated pods."""

    def __init__(self) -> None:
        super().__init__()
        # Caches expire soon, only some workers of queued jobs are checked, and few nodes count as many.
        self.bounds = [
            mock.patch.object(node_bits, "_FEW", 2),
            mock.patch.object(gate_index, "_IDLE", 1),
            mock.patch.object(expected, "MOST_EXPECTED", MOST_EXPECTED),
        ]
        for bound in self.bounds:
            bound.start()
        self.now = 1000.0
        self.gating = Gating()
        self.datasets: dict[str, Dataset] = {}
        self.caches: dict[str, NodeCache] = {}
        self.nodes: dict[str, NodeView] = {}
        self.pods: dict[str, PodView] = {}
        self.jobs: dict[str, TrainingJob] = {}
        self.expected: dict[str, PodView] = {}
        self.bookings: dict[str, tuple[tuple[str, ...], float]] = {}
        self.told: dict[str, Explanation] = {}
        self.made = 0
        self.late = False  # whether the next releases come too late
        for name in ("imagenet", "coco"):
            self.put_dataset(dataset(name, scheduling={"mode": "Prefer", "maxWait": "10m"}))
        for name, slots in (("n1", 1), ("n2", 2), ("n3", 3)):
            self.put_node(node(name, slots, labels={"zone": "a"}))
            self.put_cache(name, [_row("imagenet", 1.0, older=False)], [_entry("imagenet")])

    def teardown(self) -> None:
        for bound in self.bounds:
            bound.stop()

    def put_dataset(self, one: Dataset) -> None:
        self.datasets[one.key] = one
        self.gating.put_dataset(one.key, one)

    def put_node(self, one: NodeView) -> None:
        self.nodes[one.name] = one
        self.gating.put_node(one.name, one, self.now)

    def put_cache(self, name: str, rows: list[Any], entries: Sequence[Any] = ()) -> None:
        raw = {"metadata": {"name": name}, "spec": {"datasets": entries}, "status": {"datasets": rows}}
        self.caches[name] = NodeCache.model_validate(raw)
        self.gating.put_cache(name, self.caches[name])

    def put_pod(self, pod: PodView) -> None:
        self.pods[pod.key] = pod
        self.gating.put_pod(pod.key, pod)

    @rule(
        name=SETS,
        mode=st.sampled_from(["Prefer", "Prefer", "Require", "Require", "None"]),
        paused=st.sampled_from([False, False, True]),
        policy=st.sampled_from(["Eager", "Eager", "OnDemand", "Manual"]),
        warm=st.sampled_from(["", "Warm", "Warming", "NamespaceQuotaExceeded"]),
        selector=st.sampled_from([{}, {}, {}, {"zone": "a"}]),
        listed=st.sampled_from([True, True, True, True, False]),
        named=st.sampled_from([[], [], [], ["n2"]]),
    )
    def dataset_is_written(
        self,
        name: str,
        mode: str,
        paused: bool,
        policy: str,
        warm: str,
        selector: dict[str, str],
        listed: bool,
        named: list[str],
    ) -> None:
        spec: dict[str, Any] = {"scheduling": {"mode": mode, "maxWait": "10m"}, "cache": {"nodeSelector": selector}}
        spec["warm"] = {"paused": paused, "nodes": named, "policy": policy}
        self.put_dataset(_saying(dataset(name, listed=listed, **spec), warm))

    @rule(name=SETS, really=RARELY)
    def dataset_goes(self, name: str, really: bool) -> None:
        if really and self.datasets.pop(f"vision/{name}", None) is not None:
            self.gating.put_dataset(f"vision/{name}", None)

    @rule(name=NODES, slots=st.integers(0, 3), zone=st.sampled_from("ab"), tainted=RARELY)
    def node_comes_or_changes(self, name: str, slots: int, zone: str, tainted: bool) -> None:
        taints = (Taint("dedicated", "x", "NoSchedule"),) if tainted else ()
        self.put_node(node(name, slots, labels={"zone": zone}, taints=taints))

    @rule(name=NODES, what=st.sampled_from(["node", "sidecar", "back", "cordon", "leave"]))
    def node_falls_silent_or_is_back(self, name: str, what: str) -> None:
        one = self.nodes.get(name)
        if one is None:
            return
        changed = {
            "node": replace(one, ready=False, not_ready_since=self.now, ready_since=0.0, taints=(SILENT,)),
            "sidecar": replace(one, sidecar_ready=False, sidecar_silent_since=self.now),
            "back": replace(one, ready=True, ready_since=self.now, not_ready_since=0.0, sidecar_ready=True),
            "cordon": replace(one, schedulable=not one.schedulable),
            "leave": replace(one, leaving="" if one.leaving else "it has the taint x"),
        }
        self.put_node(changed[what])

    @rule(name=NODES, really=RARELY)
    def node_goes(self, name: str, really: bool) -> None:
        if really and self.nodes.pop(name, None) is not None:
            self.gating.put_node(name, None, self.now)

    @rule(name=NODES, shares=st.tuples(SHARES, SHARES), planned=st.sets(st.sampled_from(UIDS)), older=st.booleans())
    def node_reports(
        self, name: str, shares: tuple[float | None, float | None], planned: set[str], older: bool
    ) -> None:
        pairs = [(uid, share) for uid, share in zip(UIDS, shares, strict=True) if share is not None]
        rows = [_row(uid, share, older) for uid, share in pairs]
        self.put_cache(name, rows, [_entry(uid) for uid in sorted(planned)])

    @rule(name=NODES, really=RARELY)
    def node_cache_goes(self, name: str, really: bool) -> None:
        if really and self.caches.pop(name, None) is not None:
            self.gating.put_cache(name, None)

    @rule(
        count=st.integers(1, 3),
        gang=st.sampled_from(["", "", "g", "h"]),
        size=st.integers(1, 2),
        cores=st.sampled_from([1, 1, 2]),
        waited=st.sampled_from([0.0, 0.0, 0.0, 0.0, 90.0, 700.0]),
        choice=st.sampled_from(["imagenet:/a"] * 5 + ["imagenet:/a, coco:/b", "coco:/b", "coco:/b", "imagenet:wrong"]),
        fields=st.fixed_dictionaries(
            {
                "node_selector": st.sampled_from([{}, {}, {"zone": "a"}]),
                "scheduling": st.sampled_from(["", "", "", "", "Require", "Prefer", "None"]),
                "max_wait": st.sampled_from(["", "", "2m"]),
                "gates": st.sampled_from([(names.GATE_WARM,)] * 5 + [(OTHER_GATE, names.GATE_WARM)]),
                "tolerations": st.sampled_from([(), ({"operator": "Exists"},)]),
                "unweighed": st.sampled_from([(), (), ("its host ports",)]),
                "versions": st.sampled_from([{}, {}, {}, {}, {"vision/imagenet": "0" * 64}]),
            }
        ),
    )
    def pods_are_made(
        self, count: int, gang: str, size: int, cores: int, waited: float, choice: str, fields: dict[str, Any]
    ) -> None:
        for _ in range(count):
            self.made += 1
            name = f"p{self.made * 7 % 10}{self.made}"
            requests = Resources(cpu_milli=1000 * cores, pods=1)
            more = {"uid": f"u{self.made}", "requests": requests, "datasets": choice, "created": self.now}
            more["waited_from"] = self.now - waited if waited else 0.0
            self.put_pod(held(name, gang=gang, gang_size=size if gang else 0, **more, **fields))

    @precondition(lambda self: self.pods)
    @rule(
        number=st.integers(0, 99),
        what=st.sampled_from(["goes", "bind", "finish", "fail", "ungate", "delete", "size", "reason"]),
    )
    def pod_changes(self, number: int, what: str) -> None:
        pod = list(self.pods.values())[number % len(self.pods)]
        if what == "goes":
            del self.pods[pod.key]
            self.gating.put_pod(pod.key, None)
        elif what == "bind" and not pod.gated:
            where = self.bookings.get(pod.uid, (("n1",), 0.0))[0] or ("n1",)
            self.put_pod(replace(pod, node=where[number % len(where)], phase="Running"))
        elif what in ("finish", "fail") and pod.node:
            self.put_pod(replace(pod, phase="Succeeded" if what == "finish" else "Failed"))
        elif what == "ungate":
            self.put_pod(replace(pod, gates=tuple(gate for gate in pod.gates if gate != OTHER_GATE)))
        elif what == "delete":
            self.put_pod(replace(pod, deleting=True))
        elif what == "size" and pod.gang:
            self.put_pod(replace(pod, gang_size=number % 3 + 1))
        elif what == "reason" and pod.gated:
            self.put_pod(replace(pod, waiting=f"told {number}"))

    @rule()
    def releases_will_come_too_late(self) -> None:
        """Make the next releases too late: each pod changes before its release, and stays gated."""
        self.late = True

    @rule(
        name=st.sampled_from(["j1", "j2", "j3"]),
        workers=st.integers(1, 3),
        phase=st.sampled_from(["Suspended"] * 4 + ["Running"]),
        choice=st.sampled_from([["imagenet"]] * 3 + [["coco"], ["imagenet", "coco"], []]),
        mode=st.sampled_from(["Prefer", "Prefer", "Require", "None"]),
        selector=st.sampled_from([{}, {}, {"zone": "a"}, 7]),
        settled=st.booleans(),
    )
    def job_is_queued_or_let_go(
        self, name: str, workers: int, phase: str, choice: list[str], mode: str, selector: Any, settled: bool
    ) -> None:
        """Hold a TrainingJob in a queue: its workers need data before they exist. ``settled`` is that of a version."""
        rows = [{"namespace": "vision", "name": one, "version": "0" * 64} for one in choice] if settled else []
        container = {"name": "t", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        job = training_job(
            workers=workers,
            datasets=[{"name": one, "mountPath": f"/{one}"} for one in choice],
            scheduling={"mode": mode},
            template={"spec": {"containers": [container], "nodeSelector": selector}},
            status={"phase": phase, "datasets": rows},
        )
        old = self.jobs.get(name)
        since = old.metadata.creation_timestamp if old else format_time(self.now)
        known = {"name": name, "uid": f"uid-{name}", "creation_timestamp": since}
        self.jobs[name] = job.model_copy(update={"metadata": job.metadata.model_copy(update=known)})
        self.tell_of_expected()

    @rule(name=st.sampled_from(["j1", "j2", "j3"]))
    def job_goes(self, name: str) -> None:
        self.jobs.pop(name, None)
        self.tell_of_expected()

    def tell_of_expected(self) -> None:
        """Report new, changed and removed expected workers, as the operator's mirror does."""
        before, self.expected = self.expected, dict(expected.expected_pods(self.jobs.values()))
        for key in sorted({*before, *self.expected}):
            if before.get(key) != self.expected.get(key):
                self.gating.put_pod(key, self.expected.get(key))

    @rule(seconds=st.sampled_from([1.0, 1.0, 1.0, 31.0, 61.0, 95.0, 601.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.bookings = {uid: one for uid, one in self.bookings.items() if one[1] > self.now}

    @rule()
    def a_pass_is_made(self) -> None:
        bookings = {uid: nodes for uid, (nodes, _) in self.bookings.items()}
        plain = decide_plainly(self.view(), self.now, bookings)
        outcome = decided_by(self.gating, self.now, bookings)
        self.compare(plain, outcome)
        self.act(outcome)

    # About a third of all steps, so that passes see one change or several.
    another_pass_is_made = rule()(lambda self: self.a_pass_is_made())
    one_more_pass_is_made = rule()(lambda self: self.a_pass_is_made())
    still_one_pass_is_made = rule()(lambda self: self.a_pass_is_made())

    def view(self) -> ClusterView:
        """Return everything, with the released pods without a node in the order of their release."""
        by_uid = {pod.uid: pod for pod in self.pods.values()}
        first = [by_uid[uid] for uid in self.bookings if uid in by_uid]
        pods = {pod.key: pod for pod in (*first, *self.pods.values(), *self.expected.values())}
        return ClusterView(datasets=self.datasets, node_caches=self.caches, nodes=self.nodes, pods=pods)

    def compare(self, plain: PlainOutcome, outcome: Outcome) -> None:
        assert outcome.releases == plain.releases
        for pod in (*outcome.left, *(release.pod for release in outcome.releases)):
            self.told.pop(pod.uid, None)
        self.told |= {hold.pod.uid: hold.why for hold in outcome.holds}
        # Expected workers get no message. Their wanted nodes are compared below.
        assert self.told == {hold.pod.uid: hold.why for hold in plain.holds if not hold.pod.expected}
        assert outcome.wanted == plain.wanted
        assert outcome.next_deadline(self.now) == plain.next_deadline(self.now)

    def act(self, outcome: Outcome) -> None:
        """Act as the operator: write the marks, and release pods."""
        for hold in outcome.holds:
            if hold.held_since is not None:
                self.put_pod(replace(hold.pod, held_since=parse_time(hold.held_since)))
        late, self.late = self.late, False
        for release in outcome.releases:
            if late:
                self.put_pod(replace(release.pod, waiting=f"told at {self.now}"))
                continue
            gates = tuple(gate for gate in release.pod.gates if gate != names.GATE_WARM)
            affinity = release.pod.affinity if release.affinity is None else release.affinity
            nodes: Sequence[str] = [one.node for one in release.nodes]
            self.bookings[release.pod.uid] = (tuple(nodes), self.now + BOOKED)
            self.put_pod(replace(release.pod, gates=gates, affinity=affinity))


def _entry(uid: str) -> dict[str, Any]:
    return {"namespace": "vision", "name": uid, "uid": uid, "source": {"uri": "s3://bucket/"}}


def _saying(one: Dataset, reason: str) -> Dataset:
    """Return a Dataset whose condition Warm has this reason, or without that condition if it is empty."""
    status = "True" if reason == "Warm" else "False"
    said = Condition(type="Warm", status=status, reason=reason, last_transition_time="2026-01-01T00:00:00Z")
    return one.model_copy(update={"status": one.status.model_copy(update={"conditions": (said,) if reason else ()})})


def _row(uid: str, share: float, older: bool) -> dict[str, Any]:
    phase = "Warm" if share == 1.0 else "Warming"
    row = {"namespace": "vision", "name": uid, "uid": uid, "phase": phase, "version": VERSION, "bytes": 2 * GIB}
    old = {"version": "0" * 64, "phase": phase, "bytes": GIB, "warmBytes": int(share * GIB)}
    return row | {"warmBytes": int(share * 2 * GIB)} | ({"older": [old]} if older else {})


FollowingChanges.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestFollowingChanges = FollowingChanges.TestCase
