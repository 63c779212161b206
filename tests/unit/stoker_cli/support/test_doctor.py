"""stoker doctor: a healthy cluster has no finding, each planted fault has one, and refused reads name the right."""

import asyncio
import json
from collections.abc import Callable

import click.testing
import pytest

from stoker_api.times import format_time
from stoker_cli.main import main
from stoker_cli.support import commands
from stoker_cli.support.doctor.examination import examine
from stoker_cli.support.doctor.webhook_checks import PROBE
from stoker_cli.support.findings import Finding, FindingLevel, lines, warn
from stoker_cli.support.reads import read_facts
from stoker_kube.errors import Forbidden, Invalid, Unavailable
from stoker_kube.resources import (
    CRDS,
    CSI_DRIVERS,
    CSI_NODES,
    DAEMON_SETS,
    DATASETS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODE_CACHES,
    NODES,
    PODS,
    SECRETS,
    TUNING_PROFILES,
    VALIDATING_WEBHOOKS,
    Kind,
)
from tests.support.cases import cases
from tests.unit.stoker_cli.builders import connect_to
from tests.unit.stoker_cli.support.sick_clusters import NODE, NOW, RELEASE, SickCluster, authority, condition, pod

FAIL, WARN, OK = FindingLevel.FAIL, FindingLevel.WARN, FindingLevel.OK
Plant = Callable[[SickCluster], object]


@pytest.fixture(autouse=True)
def own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this program the version of the planted release, whatever the checkout's version is."""
    monkeypatch.setattr("stoker_cli.support.reads.version", lambda _: "0.1.0")


def findings(cluster: SickCluster, node: str = "") -> tuple[Finding, ...]:
    return examine(asyncio.run(read_facts(cluster, dict(PROBE), "vision")), node)


def problems(cluster: SickCluster) -> list[Finding]:
    return [each for each in findings(cluster) if each.level is not OK]


def status(cluster: SickCluster, kind: Kind, number: int = 0, **fields: object) -> None:
    """Change fields of a status."""
    cluster.one(kind, number)["status"] |= fields


def spec(cluster: SickCluster, kind: Kind, number: int = 0, **fields: object) -> None:
    """Change fields of a spec."""
    cluster.one(kind, number)["spec"] |= fields


def client(cluster: SickCluster, kind: Kind, **fields: object) -> None:
    """Change fields of a webhook's client."""
    cluster.one(kind)["webhooks"][0]["clientConfig"] |= fields


def without_field(cluster: SickCluster) -> None:
    crd = next(each for each in cluster.objects[CRDS] if each["metadata"]["name"] == "datasets.stoker.dev")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["warm"]["properties"]["deadline"]


def not_ready(cluster: SickCluster, number: int) -> None:
    waiting = {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
    status(cluster, PODS, number, conditions=[condition("Ready", "False")], containerStatuses=[waiting])


def other_version(cluster: SickCluster) -> None:
    cluster.one(DEPLOYMENTS)["metadata"]["labels"]["app.kubernetes.io/version"] = "0.2.0"


def folder(cluster: SickCluster, **fields: object) -> None:
    cluster.one(NODE_CACHES)["status"]["cacheFolders"][0] |= fields


def store(cluster: SickCluster, **fields: object) -> None:
    row = {"namespace": "vision", "name": "imagenet", "uid": "u1"} | fields
    status(cluster, NODE_CACHES, datasets=[row])


def kernel(cluster: SickCluster, text: str) -> None:
    cluster.one(NODES)["status"]["nodeInfo"]["kernelVersion"] = text


def event(cluster: SickCluster, age: float, message: str = "no such device") -> None:
    about = {"kind": "Pod", "name": "stoker-sidecar-1"}
    text = {"type": "Warning", "reason": "FailedMount", "message": message}
    fields = text | {"involvedObject": about, "lastTimestamp": format_time(NOW - age)}
    cluster.objects[EVENTS].append({"metadata": {"name": "e", "namespace": RELEASE}, **fields})


def refused(cluster: SickCluster, message: str) -> None:
    cluster.answer = Invalid(422, "Invalid", message)


def profile(cluster: SickCluster) -> None:
    conditions = [condition("Accepted", "False", message="spec.rules[0]: is wrong")]
    cluster.objects[TUNING_PROFILES].append({"metadata": {"name": "fast"}, "status": {"conditions": conditions}})


def test_a_healthy_cluster_has_no_problem() -> None:
    assert problems(SickCluster()) == []


def test_every_check_has_a_result_in_a_healthy_cluster() -> None:
    checks = {each.check for each in findings(SickCluster())}
    assert {"CRD", "operator", "leader", "webhook", "webhook call", "sidecar", "clock", "kernel", "Dataset"} <= checks


@cases(
    "plant, level, check, words",
    a_crd_is_missing=(lambda c: c.objects[CRDS].pop(), FAIL, "CRD", "is not installed"),
    a_crd_is_not_served=(lambda c: status(c, CRDS, conditions=[]), FAIL, "CRD", "is not served"),
    a_crd_is_old=(without_field, WARN, "CRD", "such as spec.warm.deadline"),
    the_operator_is_missing=(lambda c: c.objects[DEPLOYMENTS].clear(), FAIL, "operator", "has no Deployment"),
    no_replica_is_ready=(lambda c: status(c, DEPLOYMENTS, readyReplicas=0), FAIL, "operator", "0 of 2 replicas"),
    one_replica_is_ready=(lambda c: status(c, DEPLOYMENTS, readyReplicas=1), WARN, "operator", "1 of 2 replicas"),
    nobody_leads=(lambda c: spec(c, LEASES, holderIdentity=""), FAIL, "leader", "no replica"),
    the_leader_is_silent=(lambda c: spec(c, LEASES, renewTime=format_time(NOW - 90)), FAIL, "leader", "1m30s ago"),
    the_cli_is_older=(other_version, WARN, "versions", "0.1.0, and the release has 0.2.0"),
    a_sidecar_is_older=(other_version, WARN, "version", "0.1.0, and the operator has 0.2.0"),
    no_daemon_set=(lambda c: c.objects[DAEMON_SETS].clear(), FAIL, "DaemonSet", "have no DaemonSet"),
    the_daemon_set_selects_nothing=(
        lambda c: status(c, DAEMON_SETS, desiredNumberScheduled=0),
        WARN,
        "DaemonSet",
        "selects no node",
    ),
    a_rollout_is_stuck=(lambda c: status(c, DAEMON_SETS, updatedNumberScheduled=0), WARN, "DaemonSet", "earlier"),
    no_csi_driver=(lambda c: c.objects[CSI_DRIVERS].clear(), FAIL, "CSI driver", "no CSIDriver object"),
    the_kubelet_does_not_know_it=(lambda c: spec(c, CSI_NODES, drivers=[]), FAIL, "CSI registration", "csi.stoker.dev"),
    no_webhook=(lambda c: c.objects[MUTATING_WEBHOOKS].clear(), FAIL, "webhook", "does not exist"),
    no_ca_bundle=(lambda c: client(c, VALIDATING_WEBHOOKS, caBundle=""), FAIL, "webhook", "has no caBundle"),
    a_damaged_ca_bundle=(lambda c: client(c, MUTATING_WEBHOOKS, caBundle="!"), FAIL, "webhook", "no certificate"),
    an_expired_ca=(lambda c: client(c, MUTATING_WEBHOOKS, caBundle=authority(-1)), FAIL, "webhook", "have expired"),
    a_ca_about_to_expire=(lambda c: client(c, MUTATING_WEBHOOKS, caBundle=authority(1)), WARN, "webhook", "ends in"),
    no_path=(lambda c: client(c, MUTATING_WEBHOOKS, service={"name": "x"}), FAIL, "webhook", "has no path"),
    the_webhook_is_unreachable=(
        lambda c: refused(c, 'failed calling webhook "pods.stoker.dev": connection refused'),
        FAIL,
        "webhook call",
        "connection refused",
    ),
    the_webhook_is_not_called=(lambda c: setattr(c, "answer", None), FAIL, "webhook call", "without calling it"),
    the_sidecar_crashes=(lambda c: not_ready(c, 1), FAIL, "sidecar", "CrashLoopBackOff"),
    the_sidecar_is_missing=(lambda c: c.objects[PODS].pop(), FAIL, "sidecar", "no sidecar pod"),
    the_sidecar_restarts=(
        lambda c: status(c, PODS, 1, containerStatuses=[{"name": "c", "restartCount": 9}]),
        WARN,
        "sidecar",
        "restarted 9 times",
    ),
    the_sidecar_says_nothing=(lambda c: status(c, NODE_CACHES, conditions=[]), FAIL, "ready", "no status"),
    the_sidecar_is_in_trouble=(
        lambda c: status(c, NODE_CACHES, conditions=[condition("Ready", "False", message="no fetcher")]),
        FAIL,
        "ready",
        "no fetcher",
    ),
    a_stale_node_cache=(lambda c: c.objects[NODES].clear(), WARN, "NodeCache", "is stale"),
    the_node_is_not_ready=(
        lambda c: status(c, NODES, conditions=[condition("Ready", "Unknown", message="kubelet stopped")]),
        WARN,
        "node",
        "kubelet stopped",
    ),
    no_fuse=(lambda c: status(c, NODE_CACHES, modes=["native"]), FAIL, "mount modes", "FUSE is missing"),
    no_overlay=(
        lambda c: status(c, NODE_CACHES, modes=["native", "fuse"], modesMessage="Linux 6.1 is too old"),
        WARN,
        "mount modes",
        "Linux 6.1 is too old",
    ),
    reads_are_not_observed=(lambda c: status(c, NODE_CACHES, observer="None: no PSI"), WARN, "observer", "no PSI"),
    no_pressure=(lambda c: status(c, NODE_CACHES, pressure="None: no cgroup v2"), WARN, "pressure", "no cgroup v2"),
    a_store_is_unreachable=(
        lambda c: store(c, error={"reason": "EndpointUnreachable", "message": "timed out"}),
        FAIL,
        "store",
        "vision/imagenet: timed out",
    ),
    a_store_is_slow=(
        lambda c: store(c, sourceMilliseconds=2000, bestSourceBytesPerSecond=10**6),
        WARN,
        "store",
        "answers in 2,000 ms and gives 976.6 KiB/s at best",
    ),
    nothing_is_confined=(
        lambda c: status(c, NODE_CACHES, confinement="None: no Landlock"),
        WARN,
        "confinement",
        "no Landlock",
    ),
    an_old_kernel=(lambda c: kernel(c, "5.4.0-99"), WARN, "kernel", "observation of reads"),
    a_full_disk=(lambda c: folder(c, availableBytes=0), WARN, "cache disk", "at its floor"),
    a_failed_disk=(lambda c: folder(c, healthy=False, message="I/O error"), FAIL, "cache disk", "I/O error"),
    a_wrong_clock=(
        lambda c: spec(c, LEASES, 1, renewTime=format_time(NOW + 600)),
        FAIL,
        "clock",
        "604 s ahead of",
    ),
    a_slow_clock=(lambda c: spec(c, LEASES, 1, renewTime=format_time(NOW - 64)), WARN, "clock", "60 s behind"),
    a_source_is_unreachable=(
        lambda c: status(c, DATASETS, conditions=[condition("Listed", "False", reason="AccessDenied", message="no")]),
        FAIL,
        "Dataset",
        "Listed is False: no",
    ),
    a_node_fails_to_read=(
        lambda c: status(c, DATASETS, conditions=[condition("Degraded", message="gpu-1: EIO")]),
        WARN,
        "Dataset",
        "gpu-1: EIO",
    ),
    a_profile_is_wrong=(profile, WARN, "TuningProfile", "spec.rules[0]"),
    a_recent_warning=(lambda c: event(c, age=60), WARN, "events", "FailedMount: no such device"),
)
def test_a_planted_fault_is_found(plant: Plant, level: FindingLevel, check: str, words: str) -> None:
    cluster = SickCluster()
    plant(cluster)
    assert any(each.level is level and each.check == check and words in each.message for each in problems(cluster))


@cases("kind", nodes=NODES, crds=CRDS, leases=LEASES, node_caches=NODE_CACHES, webhooks=MUTATING_WEBHOOKS)
def test_a_check_that_may_not_be_made_names_the_right(kind: Kind) -> None:
    cluster = SickCluster()
    cluster.forbidden.add(kind)
    unread = [each for each in problems(cluster) if "not checked" in each.message]
    assert unread
    assert all(each.level is WARN and f"you may not list {kind.plural}" in each.message for each in unread)


def test_a_user_without_any_right_gets_no_failure_of_what_was_not_read() -> None:
    cluster = SickCluster()
    cluster.forbidden = set(cluster.objects)
    cluster.answer = Forbidden(403, "Forbidden", 'pods is forbidden: User "me" cannot create resource "pods"')
    assert {each.level for each in findings(cluster)} == {WARN}


def test_a_cluster_without_the_crds_is_said_to_lack_them() -> None:
    cluster = SickCluster()
    cluster.absent = {NODE_CACHES, DATASETS}
    assert any("has no datasets. Install the chart" in each.message for each in problems(cluster))


def test_the_secret_path_of_the_webhook_is_not_shown() -> None:
    cluster = SickCluster()
    refused(cluster, f'failed calling webhook "pods.stoker.dev": Post "https://x:443/mutate/{"ab" * 32}": refused')
    (finding,) = problems(cluster)
    assert 'Post "https://x:443/mutate/...": refused' in finding.message


@pytest.mark.parametrize(("age", "message"), [(7200, "no such device"), (60, "Startup probe failed: refused")])
def test_a_warning_that_is_old_or_of_a_start_is_no_finding(age: float, message: str) -> None:
    cluster = SickCluster()
    event(cluster, age, message)
    assert problems(cluster) == []


def test_a_selected_node_is_shown_alone() -> None:
    cluster = SickCluster()
    cluster.objects[PODS].append(pod("stoker-sidecar-2", "sidecar", "gpu-2"))
    assert "gpu-2" not in {each.subject for each in findings(cluster, NODE)}


def test_an_unknown_node_fails() -> None:
    assert any(each.level is FAIL and each.subject == "gpu-9" for each in findings(SickCluster(), "gpu-9"))


def test_no_secret_is_read() -> None:
    cluster = SickCluster()
    findings(cluster)
    assert SECRETS not in cluster.asked


def test_subjects_without_a_problem_share_a_line() -> None:
    cluster = SickCluster()
    cluster.objects[DATASETS] *= 3
    assert "OK    Dataset: no problem on 3 of 3" in list(lines(findings(cluster)))


def test_many_subjects_with_one_problem_are_cut() -> None:
    shown = list(lines([warn("kernel", f"node-{number}", "is old.", "Upgrade.") for number in range(50)]))
    assert shown[20] == "WARN  kernel: and 30 more. All are in: stoker doctor -o json"


class TestCommand:
    """Exit codes and output of the command."""

    def run(self, monkeypatch: pytest.MonkeyPatch, cluster: SickCluster, *arguments: str) -> click.testing.Result:
        connect_to(monkeypatch, cluster, commands, name="connect_client")
        return click.testing.CliRunner().invoke(main, ["doctor", "-n", "vision", *arguments])

    def test_no_failure_exits_with_0(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = SickCluster()
        kernel(cluster, "5.4")
        result = self.run(monkeypatch, cluster)
        assert (result.exit_code, "WARN  kernel gpu-1: Linux 5.4" in result.output) == (0, True)

    def test_a_failure_exits_with_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = SickCluster()
        folder(cluster, healthy=False)
        assert self.run(monkeypatch, cluster).exit_code == 1

    def test_json_has_every_finding(self, monkeypatch: pytest.MonkeyPatch) -> None:
        result = json.loads(self.run(monkeypatch, SickCluster(), "-o", "json").output)
        assert (result["failed"], result["counts"]["FAIL"]) == (False, 0)
        assert {"level": "OK", "check": "kernel", "subject": NODE, "message": "Linux 6.12.9", "action": ""} in result[
            "findings"
        ]

    def test_without_a_probe_no_pod_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = SickCluster()
        cluster.answer = Unavailable(0, "Unreachable", "must not be asked")
        assert "no test pod was sent" in self.run(monkeypatch, cluster, "--no-probe").output
