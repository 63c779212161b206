"""Manifests of Kueue and JobSet for programs outside of the cluster."""

from pathlib import Path
from typing import Any

from e2e.cluster.queueing import JOBSET, KUEUE, configuration, outside


def webhooks(kind: str, *groups: str) -> dict[str, Any]:
    entries = [
        {
            "name": f"{group}.example",
            "clientConfig": {"service": {"name": KUEUE.service}},
            "rules": [{"apiGroups": [group]}],
        }
        for group in groups
    ]
    return {"kind": kind, "metadata": {"name": "webhooks"}, "webhooks": entries}


def test_programs_and_rights_are_left_out() -> None:
    documents = [{"kind": kind, "metadata": {"name": "x"}} for kind in ("Deployment", "ClusterRole", "Namespace")]
    assert [one["kind"] for one in outside(documents, KUEUE, "10.0.0.1", "")] == ["Namespace"]


def test_the_service_leads_to_the_machine() -> None:
    service = {"kind": "Service", "metadata": {"name": KUEUE.service}, "spec": {"selector": {"app": "kueue"}}}
    made, place = outside([service], KUEUE, "10.0.0.1", "")
    assert "selector" not in made["spec"]
    assert place["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]
    assert place["ports"][0]["name"] == made["spec"]["ports"][0]["name"]
    assert place["metadata"]["labels"]["kubernetes.io/service-name"] == KUEUE.service


def test_no_webhook_is_asked_about_pods() -> None:
    (made,) = outside([webhooks("MutatingWebhookConfiguration", "", "batch", "ray.io")], KUEUE, "10.0.0.1", "")
    assert [one["name"] for one in made["webhooks"]] == ["batch.example"]


def test_only_who_does_not_say_it_is_told_whom_to_trust() -> None:
    document = webhooks("ValidatingWebhookConfiguration", "batch")
    (by_kueue,) = outside([document], KUEUE, "10.0.0.1", "Q0E=")
    assert "caBundle" not in by_kueue["webhooks"][0]["clientConfig"]
    (by_jobset,) = outside([document], JOBSET, "10.0.0.1", "Q0E=")
    assert by_jobset["webhooks"][0]["clientConfig"]["caBundle"] == "Q0E="


def test_they_listen_on_the_bridge_alone() -> None:
    for one in (KUEUE, JOBSET):
        made = configuration(one, "10.0.0.1", Path("/certs"))
        assert made["webhook"]["host"] == "10.0.0.1"
        assert made["health"]["healthProbeBindAddress"].startswith("10.0.0.1:")
        assert made["metrics"]["bindAddress"] == "0"
