"""The rights of the chart's roles, as rendered by Helm."""

from typing import Any

import pytest

import stoker_kube.resources as resources
from stoker_kube.resources import Kind
from tests.support.chart import of_kind, operator_of, render, variables

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
    operator = operator_of(objects)
    rules = [rule for role in of_kind(objects, "ClusterRole") for rule in role["rules"]]
    of_kueue = [rule for rule in rules if "kueue.x-k8s.io" in rule["apiGroups"]]
    assert variables(operator)["STOKER_KUEUE"] == str(wanted).lower()
    policies = {one["metadata"]["name"] for one in of_kind(objects, "ValidatingAdmissionPolicy")}
    assert bool(of_kueue) == wanted
    assert ("stoker-operator-queues" in policies) == wanted
    assert {verb for rule in of_kueue for verb in rule["verbs"]} <= {"list", "watch", "patch"}
    assert all("/status" in one for rule in of_kueue if "patch" in rule["verbs"] for one in rule["resources"])


def roles_of(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in of_kind(objects, "ClusterRole")}


def test_view_edit_and_admin_include_the_figures_of_pods_and_not_nodecaches(rendered: list[dict[str, Any]]) -> None:
    roles = roles_of(rendered)
    aggregated = {
        name: {key.rpartition("-to-")[2] for key in role["metadata"]["labels"] if "aggregate-to-" in key}
        for name, role in roles.items()
    }
    assert aggregated["stoker-figures"] == {"view", "edit", "admin"}
    assert aggregated["stoker-node-view"] == set()
    wide = [name for name, to in aggregated.items() if to and "nodecaches" in str(roles[name]["rules"])]
    assert wide == []


@pytest.mark.parametrize("enabled", [True, False])
def test_without_figures_nothing_of_them_is_installed(enabled: bool) -> None:
    objects = render({"figures": {"enabled": enabled}})
    operator = operator_of(objects)
    assert variables(operator)["STOKER_FIGURES"] == str(enabled).lower()
    assert ("stoker-figures" in roles_of(objects)) is enabled
    assert ("apiservices" in str(roles_of(objects)["stoker-operator"]["rules"])) is enabled
    assert ("kube-system" in str(of_kind(objects, "RoleBinding"))) is enabled


def test_each_policy_is_bound(rendered: list[dict[str, Any]]) -> None:
    policies = sorted(one["metadata"]["name"] for one in of_kind(rendered, "ValidatingAdmissionPolicy"))
    bindings = of_kind(rendered, "ValidatingAdmissionPolicyBinding")
    assert sorted(one["spec"]["policyName"] for one in bindings) == policies
