"""What Helm makes of the chart: objects with their names, labels, images and limits."""

from typing import Any

from stoker_api import names
from tests.support.chart import CHART, FULL_VALUES, NAMESPACE, helm, is_hook, of_kind, render


def test_lint_finds_nothing() -> None:
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_are_unique(rendered: list[dict[str, Any]]) -> None:
    seen = [(one["kind"], one["metadata"]["name"]) for one in rendered]
    assert len(seen) == len(set(seen))


def test_every_container_has_the_image_and_limits(rendered: list[dict[str, Any]]) -> None:
    pods = [one["spec"]["template"]["spec"] for one in of_kind(rendered, "Deployment", "DaemonSet", "Job")]
    containers = [container for pod in pods for container in pod["containers"]]
    assert len({container["image"] for container in containers}) == 1
    assert all(container["resources"]["limits"]["memory"] for container in containers)


def test_all_pods_but_the_sidecar_are_restricted(rendered: list[dict[str, Any]]) -> None:
    for workload in of_kind(rendered, "Deployment", "Job"):
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert [one["securityContext"]["capabilities"] for one in pod["containers"]] == [{"drop": ["ALL"]}]
        assert not any("hostPath" in volume for volume in pod["volumes"])


def test_services_do_not_set_our_variables(rendered: list[dict[str, Any]]) -> None:
    pods = [one["spec"]["template"]["spec"] for one in of_kind(rendered, "Deployment", "DaemonSet", "Job")]
    assert all(pod["enableServiceLinks"] is False for pod in pods)


def test_every_object_has_the_common_labels() -> None:
    for one in render(FULL_VALUES):
        assert one["metadata"]["labels"]["cost-center"] == "training", one["metadata"]["name"]


def test_a_digest_says_which_image() -> None:
    [deployment] = of_kind(render(FULL_VALUES), "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"images.example/stoker:1@{FULL_VALUES['image']['digest']}"


def test_service_accounts_carry_the_identity_of_the_cloud() -> None:
    accounts = [one for one in of_kind(render(FULL_VALUES), "ServiceAccount") if not is_hook(one)]
    assert {one["metadata"]["annotations"]["identity"] for one in accounts} == {"operator", "sidecar"}


def test_the_operators_lease_alone_is_served_beside_those_of_the_clusters_controllers() -> None:
    rendered = render(FULL_VALUES)
    [schema] = of_kind(rendered, "FlowSchema")
    [deployment] = of_kind(rendered, "Deployment")
    [rule] = schema["spec"]["rules"]
    [subject] = rule["subjects"]
    account = {"name": deployment["spec"]["template"]["spec"]["serviceAccountName"], "namespace": NAMESPACE}
    assert subject == {"kind": "ServiceAccount", "serviceAccount": account}
    [resources] = rule["resourceRules"]
    assert (resources["resources"], resources["namespaces"]) == (["leases"], [NAMESPACE])


def test_constraints_of_spread_select_the_operators_own_pods() -> None:
    [deployment] = of_kind(render(FULL_VALUES), "Deployment")
    [constraint] = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
    assert constraint["labelSelector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]


def test_the_webhook_is_called_for_annotated_pods_only(rendered: list[dict[str, Any]]) -> None:
    [webhook] = of_kind(rendered, "MutatingWebhookConfiguration")[0]["webhooks"]
    [condition] = webhook["matchConditions"]
    assert f"'{names.ANNOTATION_DATASETS}' in object.metadata.annotations" in condition["expression"]
    assert webhook["failurePolicy"] == "Fail"


def test_hooks_leave_nothing_behind(rendered: list[dict[str, Any]]) -> None:
    hooks = [one for one in rendered if is_hook(one)]
    assert {one["kind"] for one in hooks} >= {"Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    for one in hooks:
        assert "hook-succeeded" in one["metadata"]["annotations"]["helm.sh/hook-delete-policy"]


def test_the_driver_has_the_name_that_the_code_registers(rendered: list[dict[str, Any]]) -> None:
    [driver] = of_kind(rendered, "CSIDriver")
    assert driver["metadata"]["name"] == names.CSI_DRIVER
