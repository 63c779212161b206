"""The page in the cluster: off by default, without rights, and with TLS unless an administrator says otherwise."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.chart import is_hook, of_kind, refusal, render

TLS: Mapping[str, Any] = {"enabled": True, "tls": {"secretName": "page-tls"}}
PLAIN: Mapping[str, Any] = {"enabled": True, "plainHTTP": True}
NAME = "stoker-dashboard"


def named(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (one for one in of_kind(render({"dashboard": values}), kind) if one["metadata"]["name"] == NAME)
    return found


def pod(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(named(values, "Deployment")["spec"]["template"]["spec"])


def test_the_page_is_off_by_default() -> None:
    assert not [one for one in render({}) if one["metadata"]["name"] == NAME]


def test_a_page_without_tls_must_be_asked_for() -> None:
    assert "dashboard.plainHTTP: true" in refusal({"dashboard": {"enabled": True}})


@pytest.mark.parametrize("values", [TLS, PLAIN])
def test_the_pod_has_no_token_and_its_account_no_right(values: Mapping[str, Any]) -> None:
    assert pod(values)["automountServiceAccountToken"] is False
    assert not [volume for volume in pod(values)["volumes"] if "projected" in volume]
    assert named(values, "ServiceAccount")["automountServiceAccountToken"] is False
    bindings = of_kind(render({"dashboard": values}), "RoleBinding", "ClusterRoleBinding")
    bound = {subject["name"] for one in bindings if not is_hook(one) for subject in one["subjects"]}
    assert NAME not in bound


@pytest.mark.parametrize(("values", "scheme", "port"), [(TLS, "HTTPS", 443), (PLAIN, "HTTP", 80)])
def test_probes_and_service_follow_the_choice_of_tls(values: Mapping[str, Any], scheme: str, port: int) -> None:
    [container] = pod(values)["containers"]
    probes = [container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")]
    assert set(probes) == {scheme}
    assert [one["port"] for one in named(values, "Service")["spec"]["ports"]] == [port]
    assert ("--certificates=/etc/stoker/tls" in container["command"]) is (scheme == "HTTPS")
