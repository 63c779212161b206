"""Each alert of the chart fires when it must and is quiet when it must be, as promtool evaluates the rules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cases import cases
from tests.support.chart import CHART, of_kind, refusal, render
from tests.support.prometheus import failed_rule_tests

PAGE = "docs/operations/alerts.md"
FILE = CHART / "alerts" / "stoker.yaml"
AT = "90m"  # later than the longest `for`, an hour
A = 'node="a"'
DIGITS = 'namespace="vision",dataset="digits"'
LABELS_OF_DIGITS = {"namespace": "vision", "dataset": "digits"}

Samples = Mapping[str, str]  # values by series; one number is constant, "0+1" adds 1 each minute
Labels = Mapping[str, str]


def rules_of(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rules of a file or of a PrometheusRule's spec, by alert."""
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


RULES = rules_of(yaml.safe_load(FILE.read_text()))

# Per alert: series that raise it, its labels and its summary then, and series that do not raise it.
CASES: dict[str, tuple[Samples, Labels, str, Samples]] = {
    "StokerOperatorDown": (
        {'stoker_build_info{component="webhook"}': "1"},
        {"component": "operator"},
        "No operator pod of Stoker is scraped.",
        {'stoker_build_info{component="operator"}': "1"},
    ),
    "StokerNoLeader": (
        {'stoker_leader{pod="o-1"}': "0", 'stoker_leader{pod="o-2"}': "0"},
        {},
        "No operator pod of Stoker leads.",
        {'stoker_leader{pod="o-1"}': "0", 'stoker_leader{pod="o-2"}': "1"},
    ),
    "StokerWebhookDown": (
        {'stoker_build_info{component="operator"}': "1"},
        {"component": "webhook"},
        "No webhook of Stoker is scraped.",
        {'stoker_build_info{component="webhook"}': "1"},
    ),
    "StokerWebhookFails": (
        {'stoker_webhook_requests_total{result="not_ready"}': "0+1"},
        {"result": "not_ready"},
        "The webhook of Stoker cannot answer admission requests: not_ready.",
        {
            'stoker_webhook_requests_total{result="not_ready"}': "7",
            'stoker_webhook_requests_total{result="injected"}': "0+1",
        },
    ),
    "StokerWebhookCertificateExpires": (
        {
            f'stoker_webhook_certificate_expiry_timestamp_seconds{{pod="o-{n}"}}': str(90 * 60 + n * 86400)
            for n in (6, 60)
        },
        {},
        "The certificate of Stoker's webhook expires in 6d 0h 0m 0s.",
        # 0: a process without a certificate.
        {
            'stoker_webhook_certificate_expiry_timestamp_seconds{pod="o-1"}': str(30 * 86400),
            'stoker_webhook_certificate_expiry_timestamp_seconds{pod="o-2"}': "0",
        },
    ),
    "StokerActionsFail": (
        {'stoker_failing_actions{loop="pods"}': "3"},
        {"loop": "pods"},
        "Failing actions of the operator's loop pods: 3.",
        {'stoker_failing_actions{loop="pods"}': "0"},
    ),
    "StokerSidecarMissing": (
        {
            'stoker_mirrored_objects{table="node_caches",pod="o-1"}': "3",
            # Two pods of one node, during an upgrade.
            'stoker_build_info{component="sidecar",node="a",pod="s-1"}': "1",
            'stoker_build_info{component="sidecar",node="a",pod="s-2"}': "1",
        },
        {},
        "Nodes without a scraped sidecar: 2.",
        {
            'stoker_mirrored_objects{table="node_caches",pod="o-1"}': "1",
            'stoker_mirrored_objects{table="pods",pod="o-1"}': "9",
            'stoker_build_info{component="sidecar",node="a",pod="s-1"}': "1",
        },
    ),
    "StokerFetcherDown": (
        {f"stoker_fetcher_connected{{{A}}}": "0"},
        {"node": "a"},
        "The fetcher of node a does not respond.",
        {f'stoker_fetcher_connected{{{A},pod="new"}}': "1", f'stoker_fetcher_connected{{{A},pod="old"}}': "0"},
    ),
    "StokerMountsFail": (
        {f'stoker_csi_calls_total{{{A},method="NodePublishVolume",code="UNAVAILABLE"}}': "0+1"},
        {"node": "a"},
        "Node a cannot mount volumes of pods.",
        # The node mounts; and one mount failed, 20 minutes ago.
        {
            f'stoker_csi_calls_total{{{A},method="NodePublishVolume",code="OK"}}': "0+1",
            f'stoker_csi_calls_total{{{A},method="NodePublishVolume",code="UNAVAILABLE"}}': "0+0x69 1+0x50",
        },
    ),
    "StokerCacheFolderFailed": (
        {
            f'stoker_cache_folder_healthy{{{A},path="/mnt/0"}}': "0",
            f'stoker_cache_folder_healthy{{{A},path="/mnt/1"}}': "1",
        },
        {"node": "a", "path": "/mnt/0"},
        "Cache folder /mnt/0 of node a is out of service.",
        {f'stoker_cache_folder_healthy{{{A},path="/mnt/0"}}': "1"},
    ),
    "StokerCacheFull": (
        {f"stoker_cache_available_bytes{{{A}}}": "2", f"stoker_cache_capacity_bytes{{{A}}}": "100"},
        {"node": "a"},
        "The cache of node a is 2% free.",
        # A capacity of 0 is one that is not known.
        {
            f"stoker_cache_available_bytes{{{A}}}": "3",
            f"stoker_cache_capacity_bytes{{{A}}}": "100",
            'stoker_cache_available_bytes{node="b"}': "0",
            'stoker_cache_capacity_bytes{node="b"}': "0",
        },
    ),
    "StokerFilesDamaged": (
        {f"stoker_repaired_files_total{{{A},{DIGITS}}}": "0+1"},
        {"node": "a"},
        "The cache disk of node a returns damaged files.",
        {f"stoker_repaired_files_total{{{A},{DIGITS}}}": "5"},
    ),
    "StokerPeerDataWrong": (
        {f"stoker_peer_wrong_total{{{A},{DIGITS}}}": "0+1"},
        {"node": "a"},
        "Node a received wrong data from peers.",
        {f"stoker_peer_wrong_total{{{A},{DIGITS}}}": "5"},
    ),
    "StokerPeersRefuse": (
        {f'stoker_peer_refused_total{{{A},reason="Stranger"}}': "0+1"},
        {"node": "a"},
        "Node a refuses its peers.",
        {
            f'stoker_peer_refused_total{{{A},reason="Busy"}}': "0+1",
            f'stoker_peer_refused_total{{{A},reason="Stranger"}}': "0",
        },
    ),
    "StokerReadsFail": (
        {f'stoker_dataset_failing_reads{{node="{node}",{DIGITS},reason="AccessDenied"}}': "1" for node in "ab"},
        LABELS_OF_DIGITS | {"reason": "AccessDenied"},
        "Reads of Dataset vision/digits fail or wait (AccessDenied). Nodes: 2.",
        {f'stoker_dataset_error{{{A},{DIGITS},reason="AccessDenied"}}': "1"},
    ),
    "StokerDatasetFails": (
        {f'stoker_dataset_error{{node="{node}",{DIGITS},reason="BucketNotFound"}}': "1" for node in "ab"},
        LABELS_OF_DIGITS | {"reason": "BucketNotFound"},
        "Dataset vision/digits has the error BucketNotFound. Nodes: 2.",
        {f'stoker_dataset_error{{{A},{DIGITS},reason="{reason}"}}': "1" for reason in ("Evicted", "QuotaExceeded")},
    ),
    "StokerWarmUpStalled": (
        {f"stoker_dataset_warming{{{A},{DIGITS}}}": "1", f"stoker_dataset_bytes_per_second{{{A},{DIGITS}}}": "0"},
        LABELS_OF_DIGITS,
        "The warm-up of Dataset vision/digits makes no progress.",
        # Node a waits for node b; and a Dataset that does not warm.
        {
            f"stoker_dataset_warming{{{A},{DIGITS}}}": "1",
            f"stoker_dataset_bytes_per_second{{{A},{DIGITS}}}": "0",
            f'stoker_dataset_bytes_per_second{{node="b",{DIGITS}}}': "10",
            f'stoker_dataset_bytes_per_second{{{A},namespace="vision",dataset="warm"}}': "0",
        },
    ),
    "StokerDatasetLate": (
        {'stoker_late_datasets{reason="DeadlineMissed"}': "2", 'stoker_late_datasets{reason="DeadlineAtRisk"}': "0"},
        {"reason": "DeadlineMissed"},
        "Late Datasets (DeadlineMissed): 2.",
        {'stoker_late_datasets{reason="DeadlineMissed"}': "0"},
    ),
    "StokerOriginThrottles": (
        {"stoker_origins_slowed": "1"},
        {},
        "Buckets that throttle Stoker: 1.",
        {"stoker_origins_slowed": "0", "stoker_origin_cluster_slowdowns_total": "4"},
    ),
    "StokerPodsHeld": (
        {'stoker_held_pods{reason="NoCapacity"}': "4"},
        {"reason": "NoCapacity"},
        "Pods that stay at the scheduling gate (NoCapacity): 4.",
        {'stoker_held_pods{reason="WaitingForData"}': "4", 'stoker_held_pods{reason="NoCapacity"}': "0"},
    ),
    "StokerPodsUnschedulable": (
        {"stoker_unschedulable_pods": "4"},
        {},
        "Released pods that find no node: 4.",
        {"stoker_unschedulable_pods": "0"},
    ),
    "StokerPodsRefused": (
        {'stoker_webhook_requests_total{result="refused"}': "0+1"},
        {},
        "The webhook of Stoker keeps refusing pods.",
        # One refusal, 20 minutes ago.
        {'stoker_webhook_requests_total{result="refused"}': "0+0x69 1+0x50"},
    ),
    "StokerTrainingStalls": (
        {
            f'stoker_dataset_stall_ratio{{node="{node}",{DIGITS}}}': value
            for node, value in (("a", "0.1"), ("b", "0.5"))
        },
        LABELS_OF_DIGITS,
        "A pod of Dataset vision/digits waits for data 50% of the time.",
        {f"stoker_dataset_stall_ratio{{{A},{DIGITS}}}": "0.2"},
    ),
    "StokerOrderWrong": (
        {"stoker_wrong_orders_total": "0+1"},
        {},
        "TrainingJobs read in another order than spec.sampling.",
        {"stoker_wrong_orders_total": "1"},
    ),
    "StokerTuningHurts": (
        {'stoker_tuning_changes_total{knob="readahead",verdict="hurt"}': "0+1"},
        {},
        "More tuning changes hurt than help.",
        {
            'stoker_tuning_changes_total{knob="readahead",verdict="hurt"}': "0+1",
            'stoker_tuning_changes_total{knob="readahead",verdict="helped"}': "0+2",
        },
    ),
}


def values(samples: str) -> str:
    """Return two hours of samples, one a minute, in promtool's notation. Samples in this notation stay."""
    if "x" in samples:
        return samples
    return f"{samples}x120" if "+" in samples else f"{samples}+0x120"


def evaluate(alert: str, samples: Samples, expected: Mapping[str, list[dict[str, Any]]], folder: Path) -> str:
    """Return promtool's complaint if these series do not lead to the alerts that are expected at each time."""
    at = [{"eval_time": time, "alertname": alert, "exp_alerts": raised} for time, raised in expected.items()]
    series = [{"series": name, "values": values(numbers)} for name, numbers in samples.items()]
    case = {"interval": "1m", "input_series": series, "alert_rule_test": at}
    return failed_rule_tests({"rule_files": [str(FILE)], "tests": [case]}, folder / "test.yaml")


def raised(alert: str, labels: Labels, summary: str) -> dict[str, Any]:
    rule = RULES[alert]
    annotations = rule["annotations"] | {"summary": summary}
    return {"exp_labels": rule["labels"] | labels, "exp_annotations": annotations}


def test_every_alert_has_a_case() -> None:
    assert list(CASES) == list(RULES)


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires(alert: str, tmp_path: Path) -> None:
    samples, labels, summary, _ = CASES[alert]
    expected = {"0m": [], AT: [raised(alert, labels, summary)]}
    assert evaluate(alert, samples, expected, tmp_path) == ""


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_is_quiet(alert: str, tmp_path: Path) -> None:
    assert evaluate(alert, CASES[alert][3], {AT: []}, tmp_path) == ""


def test_a_cluster_without_any_sidecar_is_noticed(tmp_path: Path) -> None:
    expected = raised("StokerSidecarMissing", {}, "Nodes without a scraped sidecar: 3.")
    samples = {'stoker_mirrored_objects{table="node_caches"}': "3"}
    assert evaluate("StokerSidecarMissing", samples, {AT: [expected]}, tmp_path) == ""


def in_the_chart(**alerts: Any) -> list[dict[str, Any]]:
    return of_kind(render({"alerts": {"enabled": True, **alerts}}), "PrometheusRule")


def test_the_chart_has_no_alerts_by_default() -> None:
    assert not of_kind(render({}), "PrometheusRule")


def test_the_chart_has_the_rules_of_the_file() -> None:
    [rule] = in_the_chart(labels={"release": "prometheus"})
    assert rules_of(rule["spec"]) == RULES
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_a_disabled_alert_is_left_out() -> None:
    [rule] = in_the_chart(disabled=["StokerCacheFull"])
    assert RULES.keys() - rules_of(rule["spec"]).keys() == {"StokerCacheFull"}


def test_runbooks_are_at_the_address_of_the_values() -> None:
    [rule] = in_the_chart(runbooks="https://docs.example/alerts.html")
    urls = {alert: one["annotations"]["runbook_url"] for alert, one in rules_of(rule["spec"]).items()}
    assert urls == {alert: f"https://docs.example/alerts.html#{alert.lower()}" for alert in RULES}


@cases(
    "alerts, sentence",
    an_unknown_alert=({"enabled": True, "disabled": ["StokerFoo"]}, "there is no alert StokerFoo"),
    an_address_with_an_anchor=({"runbooks": "https://docs.example/#a"}, "runbooks"),
)
def test_values_with_a_typo_are_refused(alerts: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal({"alerts": alerts})
