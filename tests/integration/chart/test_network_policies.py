"""The clients and ports that the chart's NetworkPolicies allow."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.chart import of_kind, render


def peers(values: Mapping[str, Any], which: str = "http", *, figures: bool = True) -> dict[str, list[Any]]:
    """Return the allowed clients of a port, by policy. A rule without peers allows all."""
    policies = of_kind(render({"networkPolicy": values, "figures": {"enabled": figures}}), "NetworkPolicy")
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
    assert peers({}) == {"stoker-operator": [], "stoker-hooks": [], "stoker-holder": [], "stoker-sidecar": []}
    scraper = {"namespaceSelector": {"matchLabels": {"team": "ops"}}}
    named = {"stoker-operator": [scraper], "stoker-hooks": [], "stoker-holder": [], "stoker-sidecar": [scraper]}
    assert peers({"metricsFrom": [scraper]}) == named


def test_a_named_scraper_reaches_the_metrics_of_the_webhook() -> None:
    scraper = {"namespaceSelector": {"matchLabels": {"team": "ops"}}}
    assert peers({"metricsFrom": [scraper]}, "webhook-http")["stoker-operator"] == [scraper]


def test_network_policies_can_be_turned_off() -> None:
    assert peers({"enabled": False}) == {}


def component(name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "stoker", "app.kubernetes.io/component": name}
    return {"podSelector": {"matchLabels": labels}}


@pytest.mark.parametrize(
    ("figures", "reaching"),
    [(True, [component("sidecar"), component("operator")]), (False, [component("sidecar")])],
)
def test_network_policies_let_sidecars_and_for_figures_the_operator_reach_the_port_of_peers(
    figures: bool, reaching: list[Any]
) -> None:
    scraped: dict[str, Any] = {"metricsFrom": [{"namespaceSelector": {}}]}
    alone = {"stoker-operator": [], "stoker-hooks": [], "stoker-holder": [], "stoker-sidecar": reaching}
    assert peers({}, "peers", figures=figures) == peers(scraped, "peers", figures=figures) == alone


@pytest.mark.parametrize("clients", [[], [component("ingress")]])
def test_only_named_clients_reach_the_page(clients: list[Any]) -> None:
    values = {"dashboard": {"enabled": True, "plainHTTP": True, "from": clients}}
    [policy] = [
        one for one in of_kind(render(values), "NetworkPolicy") if one["metadata"]["name"] == "stoker-dashboard"
    ]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]] == clients
