"""Whom the chart's NetworkPolicies let reach which port."""

from collections.abc import Mapping
from typing import Any

from tests.support.chart import of_kind, render

COMPONENT = {"app.kubernetes.io/component": "sidecar"}


def peers(values: Mapping[str, Any], which: str = "http") -> dict[str, list[Any]]:
    """Return who may reach a port, by policy; a rule without peers lets in all."""
    policies = of_kind(render({"networkPolicy": {"enabled": True, **values}}), "NetworkPolicy")
    return {
        one["metadata"]["name"]: [
            peer
            for rule in one["spec"]["ingress"]
            if any(port["port"] == which for port in rule["ports"])
            for peer in rule.get("from") or ["everyone"]
        ]
        for one in policies
    }


def test_network_policies_let_nobody_reach_metrics_unless_named() -> None:
    assert peers({}) == {"stoker-operator": [], "stoker-hooks": [], "stoker-sidecar": []}
    scraper = {"namespaceSelector": {"matchLabels": {"team": "ops"}}}
    named = {"stoker-operator": [scraper], "stoker-hooks": [], "stoker-sidecar": [scraper]}
    assert peers({"metricsFrom": [scraper]}) == named


def test_network_policies_let_sidecars_alone_reach_manifests() -> None:
    sidecars = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "stoker"} | COMPONENT}}
    alone = {"stoker-operator": [], "stoker-hooks": [], "stoker-sidecar": [sidecars]}
    assert peers({}, "peers") == peers({"metricsFrom": [{"namespaceSelector": {}}]}, "peers") == alone
