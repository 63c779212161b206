"""What the chart's values turn on and off: overlays, neighbours, observation, reports, plug-ins, caps of origins."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.chart import of_kind, render, variables


def test_a_bare_off_of_yaml_turns_overlays_off() -> None:
    (sidecar,) = of_kind(render({"sidecar": {"overlay": False}}), "DaemonSet")
    assert variables(sidecar)["STOKER_OVERLAY"] == "Off"


@pytest.mark.parametrize(
    ("values", "expected"), [({}, ("Auto", False)), ({"overlay": "Off", "hostPID": True}, ("Off", True))]
)
def test_overlays_are_tried_and_other_processes_not_seen_unless_asked_for(
    values: Mapping[str, Any], expected: tuple[str, bool]
) -> None:
    (sidecar,) = of_kind(render({"sidecar": values}), "DaemonSet")
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
def test_nodes_give_each_other_what_they_are_to_have_unless_it_is_off(
    values: Mapping[str, Any], expected: tuple[str, str, str]
) -> None:
    (sidecar,) = of_kind(render({"sidecar": {"neighbours": values}}), "DaemonSet")
    names = ("STOKER_NEIGHBOURS", "STOKER_PEER_UPLOADS", "STOKER_PEER_BYTES_PER_SECOND")
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
def test_the_operator_knows_whether_nodes_give_each_other_anything_and_their_racks(
    values: Mapping[str, Any], expected: tuple[str, str]
) -> None:
    (operator,) = of_kind(render({"sidecar": {"neighbours": values}}), "Deployment")
    assert tuple(variables(operator)[name] for name in ("STOKER_NEIGHBOURS", "STOKER_RACK_LABEL")) == expected


@pytest.mark.parametrize(("enabled", "operator", "sidecar"), [(True, "true", "On"), (False, "false", "Off")])
def test_reports_are_turned_on_and_off_for_operator_and_sidecar_together(
    enabled: bool, operator: str, sidecar: str
) -> None:
    rendered = render({"reports": {"enabled": enabled}})
    values = [variables(workload)["STOKER_REPORTS"] for workload in of_kind(rendered, "Deployment", "DaemonSet")]
    assert sorted(values) == sorted([operator, sidecar])


@pytest.mark.parametrize(
    ("values", "mode", "cgroups"),
    [({}, "Auto", True), ({"mode": "Off", "pressure": False}, "Off", False), ({"mode": False}, "Off", True)],
)
def test_nodes_look_at_what_pods_read_unless_it_is_off(values: Mapping[str, Any], mode: str, cgroups: bool) -> None:
    (sidecar,) = of_kind(render({"sidecar": {"observe": values}}), "DaemonSet")
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
    (sidecar,) = of_kind(render({"sidecar": values}), "DaemonSet")
    assert variables(sidecar)["STOKER_PLUGINS"] == names


@pytest.mark.parametrize(("values", "names"), [({}, ""), ({"orderPlugins": ["mine", "yours"]}, "mine,yours")])
def test_no_order_plug_in_may_be_asked_that_is_not_named(values: Mapping[str, Any], names: str) -> None:
    (sidecar,) = of_kind(render({"sidecar": values}), "DaemonSet")
    assert variables(sidecar)["STOKER_ORDER_PLUGINS"] == names


def test_origins_of_one_bucket_at_several_endpoints_are_told_to_the_operator_as_they_are() -> None:
    rows = [{"bucket": "abc"}, {"endpoint": "https://e", "bucket": "abc"}, {"endpoint": "https://e:8443"}, {}]
    (operator,) = of_kind(render({"origins": {"caps": rows}}), "Deployment")
    assert json.loads(variables(operator)["STOKER_ORIGINS"])["caps"] == rows
