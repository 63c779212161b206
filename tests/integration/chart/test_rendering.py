"""The rendered chart: objects with their names, labels, images and limits."""

from typing import Any

from stoker_api import names
from tests.support.chart import CHART, FULL_VALUES, NAMESPACE, helm, is_hook, of_kind, operator_of, render


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
        assert all(one["securityContext"]["capabilities"] == {"drop": ["ALL"]} for one in pod["containers"])
        assert not any("hostPath" in volume for volume in pod["volumes"])


def test_services_do_not_set_our_variables(rendered: list[dict[str, Any]]) -> None:
    pods = [one["spec"]["template"]["spec"] for one in of_kind(rendered, "Deployment", "DaemonSet", "Job")]
    assert all(pod["enableServiceLinks"] is False for pod in pods)


def test_every_object_has_the_common_labels() -> None:
    for one in render(FULL_VALUES):
        assert one["metadata"]["labels"]["cost-center"] == "training", one["metadata"]["name"]


def test_a_digest_says_which_image() -> None:
    deployment = operator_of(render(FULL_VALUES))
    images = {one["image"] for one in deployment["spec"]["template"]["spec"]["containers"]}
    assert images == {f"images.example/stoker:1@{FULL_VALUES['image']['digest']}"}


def test_service_accounts_carry_the_identity_of_the_cloud() -> None:
    accounts = [one["metadata"] for one in of_kind(render(FULL_VALUES), "ServiceAccount") if not is_hook(one)]
    identities = {one["name"].removeprefix("stoker-"): one.get("annotations", {}).get("identity") for one in accounts}
    assert identities == {"operator": "operator", "sidecar": "sidecar", "dashboard": None}


def test_the_operators_lease_alone_is_served_beside_those_of_the_clusters_controllers() -> None:
    rendered = render(FULL_VALUES)
    [schema] = of_kind(rendered, "FlowSchema")
    deployment = operator_of(rendered)
    [rule] = schema["spec"]["rules"]
    [subject] = rule["subjects"]
    account = {"name": deployment["spec"]["template"]["spec"]["serviceAccountName"], "namespace": NAMESPACE}
    assert subject == {"kind": "ServiceAccount", "serviceAccount": account}
    [resources] = rule["resourceRules"]
    assert (resources["resources"], resources["namespaces"]) == (["leases"], [NAMESPACE])


def test_constraints_of_spread_select_the_operators_own_pods() -> None:
    deployment = operator_of(render(FULL_VALUES))
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


def operator_containers(rendered: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    deployment = operator_of(rendered)
    return {one["name"]: one for one in deployment["spec"]["template"]["spec"]["containers"]}


def port_names(container: dict[str, Any]) -> set[str]:
    return {port["name"] for port in container["ports"]}


def test_the_webhook_and_the_figures_are_served_by_different_containers() -> None:
    containers = operator_containers(render({}))
    assert {name: one["command"][1] for name, one in containers.items()} == {"operator": "run", "webhook": "webhook"}
    assert port_names(containers["operator"]) == {"http", "figures"}
    assert port_names(containers["webhook"]) == {"webhook", "webhook-http"}


def test_the_containers_of_the_operator_share_no_port() -> None:
    ports = [port["containerPort"] for one in operator_containers(render({})).values() for port in one["ports"]]
    assert len(ports) == len(set(ports))


def test_each_probe_asks_its_own_container() -> None:
    for container in operator_containers(render({})).values():
        asked = {container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")}
        assert asked <= port_names(container)


def test_the_metrics_of_both_containers_are_scraped() -> None:
    rendered = render(FULL_VALUES)
    [monitor] = [one for one in of_kind(rendered, "ServiceMonitor") if one["metadata"]["name"] == "stoker-operator"]
    [service] = [one for one in of_kind(rendered, "Service") if one["metadata"]["name"] == "stoker-operator-metrics"]
    scraped = [one["port"] for one in monitor["spec"]["endpoints"]]
    assert scraped == [one["name"] for one in service["spec"]["ports"]] == ["http", "webhook-http"]
