"""Which rights the chart's roles give, as Helm renders them."""

from typing import Any

import pytest

import stoker_kube.resources as resources
from stoker_kube.resources import Kind
from tests.support.chart import of_kind, render, variables

KNOWN_RESOURCES = {(kind.group, kind.plural) for kind in vars(resources).values() if isinstance(kind, Kind)}


def test_no_rule_has_a_wildcard(rendered: list[dict[str, Any]]) -> None:
    for role in of_kind(rendered, "Role", "ClusterRole"):
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], role["metadata"]["name"]


def test_rules_name_only_resources_that_the_code_knows(rendered: list[dict[str, Any]]) -> None:
    for role in of_kind(rendered, "Role", "ClusterRole"):
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                named = {(group, resource.split("/")[0]) for resource in rule["resources"]}
                assert named <= KNOWN_RESOURCES, role["metadata"]["name"]


def test_secrets_are_read_by_name_only(rendered: list[dict[str, Any]]) -> None:
    for role in of_kind(rendered, "Role", "ClusterRole"):
        for rule in role["rules"]:
            if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
                assert role["kind"] == "Role"
                assert rule["resourceNames"]


@pytest.mark.parametrize(("startup_taint", "wanted"), [(False, set()), (True, {"patch"})])
def test_nobody_may_write_nodes_but_for_the_start_up_taint(startup_taint: bool, wanted: set[str]) -> None:
    verbs = {
        verb
        for role in of_kind(render({"operator": {"startupTaint": {"enabled": startup_taint}}}), "Role", "ClusterRole")
        for rule in role["rules"]
        if any(resource.startswith("nodes") for resource in rule["resources"])
        for verb in rule["verbs"]
    }
    assert verbs - {"get", "list", "watch"} == wanted


@pytest.mark.parametrize(
    ("enabled", "there", "wanted"),
    [("auto", False, False), ("auto", True, True), (True, False, True), (False, True, False)],
)
def test_rights_to_kueues_objects_are_given_where_they_are_used(enabled: Any, there: bool, wanted: bool) -> None:
    objects = render({"kueue": {"enabled": enabled}}, *(["kueue.x-k8s.io/v1beta1"] if there else []))
    [operator] = of_kind(objects, "Deployment")
    rules = [rule for role in of_kind(objects, "ClusterRole") for rule in role["rules"]]
    of_kueue = [rule for rule in rules if "kueue.x-k8s.io" in rule["apiGroups"]]
    assert variables(operator)["STOKER_KUEUE"] == str(wanted).lower()
    policies = {one["metadata"]["name"] for one in of_kind(objects, "ValidatingAdmissionPolicy")}
    assert bool(of_kueue) == wanted
    assert ("stoker-operator-queues" in policies) == wanted
    assert {verb for rule in of_kueue for verb in rule["verbs"]} <= {"list", "watch", "patch"}
    assert all("/status" in one for rule in of_kueue if "patch" in rule["verbs"] for one in rule["resources"])


def test_each_policy_is_bound(rendered: list[dict[str, Any]]) -> None:
    policies = sorted(one["metadata"]["name"] for one in of_kind(rendered, "ValidatingAdmissionPolicy"))
    bindings = of_kind(rendered, "ValidatingAdmissionPolicyBinding")
    assert sorted(one["spec"]["policyName"] for one in bindings) == policies
