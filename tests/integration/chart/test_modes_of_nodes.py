"""Features switched by the chart's values: overlays, peers, observation, reports, plug-ins, caps of origins."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.chart import of_kind, operator_of, render, sidecar_of, variables


def test_a_bare_off_of_yaml_turns_overlays_off() -> None:
    sidecar = sidecar_of(render({"sidecar": {"overlay": False}}))
    assert variables(sidecar)["STOKER_OVERLAY"] == "Off"


@pytest.mark.parametrize(
    ("values", "expected"), [({}, ("Auto", False)), ({"overlay": "Off", "hostPID": True}, ("Off", True))]
)
def test_overlays_are_tried_and_other_processes_not_seen_unless_asked_for(
    values: Mapping[str, Any], expected: tuple[str, bool]
) -> None:
    sidecar = sidecar_of(render({"sidecar": values}))
    pod = sidecar["spec"]["template"]["spec"]
    assert (variables(sidecar)["STOKER_OVERLAY"], pod["hostPID"]) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("Auto", "16", "0")),
        ({"mode": False}, ("Off", "16", "0")),
        ({"uploads": 4, "bytesPerSecond": "500Mi"}, ("Auto", "4", "500Mi")),
    ],
)
@pytest.mark.parametrize("spelling", ["peers", "neighbours"])
def test_nodes_give_each_other_what_they_are_to_have_unless_it_is_off(
    values: Mapping[str, Any], expected: tuple[str, str, str], spelling: str
) -> None:
    sidecar = sidecar_of(render({"sidecar": {spelling: values}}))
    names = ("STOKER_PEERS", "STOKER_PEER_UPLOADS", "STOKER_PEER_BYTES_PER_SECOND")
    assert tuple(variables(sidecar)[name] for name in names) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("Auto", "")),
        ({"mode": "Off"}, ("Off", "")),
        ({"mode": False}, ("Off", "")),
        ({"uploads": 0}, ("Off", "")),
        ({"rackLabel": "example.com/rack"}, ("Auto", "example.com/rack")),
    ],
)
@pytest.mark.parametrize("spelling", ["peers", "neighbours"])
def test_the_operator_knows_whether_nodes_give_each_other_anything_and_their_racks(
    values: Mapping[str, Any], expected: tuple[str, str], spelling: str
) -> None:
    operator = operator_of(render({"sidecar": {spelling: values}}))
    assert tuple(variables(operator)[name] for name in ("STOKER_PEERS", "STOKER_RACK_LABEL")) == expected


def test_the_old_name_of_peers_applies_where_the_new_one_has_the_default() -> None:
    values = {"neighbours": {"mode": "Auto", "uploads": 4}, "peers": {"mode": "Off", "rackLabel": None}}
    operator = operator_of(render({"sidecar": values}))
    sidecar = sidecar_of(render({"sidecar": values}))
    assert [variables(operator)[name] for name in ("STOKER_PEERS", "STOKER_RACK_LABEL")] == ["Off", ""]
    assert [variables(sidecar)[name] for name in ("STOKER_PEERS", "STOKER_PEER_UPLOADS")] == ["Off", "4"]


@pytest.mark.parametrize(("enabled", "webhook", "sidecar"), [(True, "true", "On"), (False, "false", "Off")])
def test_reports_are_turned_on_and_off_for_webhook_and_sidecar_together(
    enabled: bool, webhook: str, sidecar: str
) -> None:
    rendered = render({"reports": {"enabled": enabled}})
    deployment = operator_of(rendered)
    values = [told["STOKER_REPORTS"] for told in (variables(deployment, "webhook"), variables(sidecar_of(rendered)))]
    assert values == [webhook, sidecar]


@pytest.mark.parametrize(
    ("values", "mode", "cgroups"),
    [({}, "Auto", True), ({"mode": "Off", "pressure": False}, "Off", False), ({"mode": False}, "Off", True)],
)
def test_nodes_look_at_what_pods_read_unless_it_is_off(values: Mapping[str, Any], mode: str, cgroups: bool) -> None:
    sidecar = sidecar_of(render({"sidecar": {"observe": values}}))
    (container,) = sidecar["spec"]["template"]["spec"]["containers"]
    told = variables(sidecar)
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert told["STOKER_OBSERVE"] == mode
    assert (told.get("STOKER_CGROUP_ROOT") in mounts) is cgroups
    assert all(one.get("readOnly") for path, one in mounts.items() if path == told.get("STOKER_CGROUP_ROOT"))


@pytest.mark.parametrize(
    ("values", "names"),
    [({}, "pytorch,tensorflow,jax,huggingface"), ({"plugins": ["paddle"]}, "paddle"), ({"plugins": []}, "")],
)
def test_nodes_may_ask_the_plug_ins_that_are_named(values: Mapping[str, Any], names: str) -> None:
    sidecar = sidecar_of(render({"sidecar": values}))
    assert variables(sidecar)["STOKER_PLUGINS"] == names


@pytest.mark.parametrize(("values", "names"), [({}, ""), ({"orderPlugins": ["mine", "yours"]}, "mine,yours")])
def test_no_order_plug_in_may_be_asked_that_is_not_named(values: Mapping[str, Any], names: str) -> None:
    sidecar = sidecar_of(render({"sidecar": values}))
    assert variables(sidecar)["STOKER_ORDER_PLUGINS"] == names


def test_origins_of_one_bucket_at_several_endpoints_are_told_to_the_operator_as_they_are() -> None:
    rows = [{"bucket": "abc"}, {"endpoint": "https://e", "bucket": "abc"}, {"endpoint": "https://e:8443"}, {}]
    operator = operator_of(render({"origins": {"caps": rows}}))
    assert json.loads(variables(operator)["STOKER_ORIGINS"])["caps"] == rows


def test_the_sidecar_and_the_holder_meet_at_one_socket() -> None:
    rendered = render({})
    sidecar, (holder,) = sidecar_of(rendered), holders(rendered)
    (container,) = holder["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == variables(sidecar)["STOKER_HOLDER_SOCKET"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]


def test_without_a_holder_the_sidecar_looks_for_none() -> None:
    rendered = render({"sidecar": {"holder": {"enabled": False}}})
    assert holders(rendered) == []
    assert "STOKER_HOLDER_SOCKET" not in variables(sidecar_of(rendered))


def holders(rendered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in of_kind(rendered, "DaemonSet") if one["metadata"]["name"] == "stoker-holder"]
