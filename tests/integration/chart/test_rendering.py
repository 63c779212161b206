"""What Helm makes of the chart, and what it refuses."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

import stoker_kube.resources as resources
from stoker_api import names
from stoker_api.datasetclass import DatasetClass
from stoker_kube.resources import Kind
from stoker_sidecar.agent.core.grants import HostFolder, parse_host_folders
from stoker_sidecar.wire.disk_floor import DiskFloor, Floor
from tests.support.chart import CHART, FULL_VALUES, NAMESPACE, helm, is_hook, of_kind, render

VALUES: dict[str, Mapping[str, Any]] = {"default": {}, "full": FULL_VALUES}
KNOWN_RESOURCES = {(kind.group, kind.plural) for kind in vars(resources).values() if isinstance(kind, Kind)}


@pytest.fixture(scope="module", params=VALUES)
def rendered(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return render(VALUES[request.param])


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
    [container] = of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    rules = [rule for role in of_kind(objects, "ClusterRole") for rule in role["rules"]]
    of_kueue = [rule for rule in rules if "kueue.x-k8s.io" in rule["apiGroups"]]
    assert variables["STOKER_KUEUE"] == str(wanted).lower()
    policies = {one["metadata"]["name"] for one in of_kind(objects, "ValidatingAdmissionPolicy")}
    assert bool(of_kueue) == wanted
    assert ("stoker-operator-queues" in policies) == wanted
    assert {verb for rule in of_kueue for verb in rule["verbs"]} <= {"list", "watch", "patch"}
    assert all("/status" in one for rule in of_kueue if "patch" in rule["verbs"] for one in rule["resources"])


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


def test_secrets_are_read_by_name_only(rendered: list[dict[str, Any]]) -> None:
    for role in of_kind(rendered, "Role", "ClusterRole"):
        for rule in role["rules"]:
            if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
                assert role["kind"] == "Role"
                assert rule["resourceNames"]


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


def default_class(*words: str, **values: Any) -> DatasetClass | None:
    stdin = json.dumps({"datasetClass": values} if values else {})
    done = helm("template", "stoker", str(CHART), "--namespace", NAMESPACE, "--values", "-", *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    found = of_kind((one for one in yaml.safe_load_all(done.stdout) if one), DatasetClass.KIND)
    return DatasetClass.model_validate(found[0]) if found else None


def test_the_class_of_the_chart_is_the_default_and_lets_a_single_team_do_all() -> None:
    found = default_class()
    assert found is not None
    assert (found.metadata.name, found.is_default, found.spec.namespaces) == ("default", True, ("*",))
    assert (found.spec.priority.max, found.spec.priority.default, found.spec.allow_pinning) == (1000, 0, True)


def test_the_class_of_the_chart_can_be_another_one_or_none() -> None:
    found = default_class(name="tenants", spec={"priority": {"max": 5}})
    assert found is not None
    assert (found.metadata.name, found.spec.priority.max) == ("tenants", 5)
    assert default_class(install=False) is None


def test_an_upgrade_from_a_release_without_the_kind_does_without_the_class() -> None:
    known = "stoker.dev/v1alpha1/DatasetClass"
    assert default_class("--is-upgrade") is None
    assert default_class("--is-upgrade", "--api-versions", known) is not None


NFS = {"path": "/nfs", "namespaces": ["a"]}
COMPONENT = {"app.kubernetes.io/component": "sidecar"}


def test_host_folders_are_read_only() -> None:
    [daemon_set] = of_kind(render(FULL_VALUES), "DaemonSet")
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts["/mnt/nfs"]["readOnly"] is True
    assert "readOnly" not in mounts["/mnt/nvme/stoker"]


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    (pod,) = [one["spec"]["template"]["spec"] for one in of_kind(render(values), "DaemonSet")]
    return {one["name"]: one.get("value", "") for one in pod["containers"][0]["env"]}


def test_the_sidecar_is_told_what_of_the_nodes_own_it_may_use_for_whom() -> None:
    told = environment(FULL_VALUES)
    assert told["STOKER_HOST_FOLDERS"] == "/mnt/nfs,/srv/data"
    folders = HostFolder("/mnt/nfs", ("*",)), HostFolder("/srv/data", ("a", "b-*"))
    assert parse_host_folders(told["STOKER_HOST_FOLDER_GRANTS"]) == folders
    assert told["STOKER_AMBIENT_NAMESPACES"] == "vision,team-*"
    assert told["STOKER_ENDPOINT_NETWORKS"] == "127.0.0.0/8,fe80::5"
    assert told["STOKER_STS_ENDPOINT"] == "https://minio.example:9000"


@pytest.mark.parametrize(
    ("values", "floor"),
    [
        ({}, DiskFloor()),
        ({"sidecar": {"floor": {"bytes": "50Gi", "inodes": "2.5%"}}}, DiskFloor(Floor(amount=50 << 30), Floor(0.025))),
        ({"sidecar": {"floor": {"bytes": 0}}}, DiskFloor(bytes=Floor())),
    ],
)
def test_the_sidecar_is_told_what_to_leave_free_of_its_disks(values: dict[str, Any], floor: DiskFloor) -> None:
    told = environment(values)
    assert DiskFloor(Floor.parse(told["STOKER_FLOOR_BYTES"]), Floor.parse(told["STOKER_FLOOR_INODES"])) == floor


@pytest.mark.parametrize("values", [{}, {"sidecar": {"ambientCredentials": {"namespaces": ["vision"]}}}])
def test_nothing_of_the_nodes_own_is_used_by_default(values: dict[str, Any]) -> None:
    told = environment(values)
    assert told["STOKER_HOST_FOLDERS"] == told["STOKER_AMBIENT_NAMESPACES"] == told["STOKER_ENDPOINT_NETWORKS"] == ""
    assert told["STOKER_HOST_FOLDER_GRANTS"] == "[]"


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


def test_cache_folders_on_disk_and_in_memory_are_named_and_mounted() -> None:
    (pod,) = [one["spec"]["template"]["spec"] for one in of_kind(render(FULL_VALUES), "DaemonSet")]
    (container,) = pod["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["STOKER_CACHE_ROOT"] == "/mnt/nvme/stoker,memory:/var/lib/stoker-memory/1"
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes[mounts["/mnt/nvme/stoker"]]["hostPath"]["path"] == "/mnt/nvme/stoker"
    assert volumes[mounts["/var/lib/stoker-memory/1"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}


def test_a_bare_off_of_yaml_turns_overlays_off() -> None:
    (pod,) = [one["spec"]["template"]["spec"] for one in of_kind(render({"sidecar": {"overlay": False}}), "DaemonSet")]
    assert {"name": "STOKER_OVERLAY", "value": "Off"} in pod["containers"][0]["env"]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"operator": {"replcas": 3}}, "replcas"),
        ({"kubeletDir": "var/lib/kubelet"}, "kubeletDir"),
        ({"sidecar": {"cacheDirs": []}}, "cacheDirs"),
        ({"sidecar": {"cacheDirs": [{"medium": "Memory"}]}}, "cacheDirs"),
        ({"sidecar": {"cacheDirs": None}}, "sidecar.cacheDirs names no folder"),
        ({"sidecar": {"cacheDirs": ["/a", "/a"]}}, "cacheDirs"),
        ({"sidecar": {"floor": {"bytes": "100%"}}}, "floor"),
        ({"sidecar": {"floor": {"inodes": "many"}}}, "floor"),
        ({"sidecar": {"cacheDirs": ["/a/b", "/a"]}}, "/a/b lies in /a"),
        ({"sidecar": {"cacheDirs": ["/a/../b"]}}, "/a/../b has '..' in it"),
        ({"sidecar": {"cacheDirs": ["/var/lib/stoker"]}}, "/var/lib/stoker is used for something else"),
        ({"sidecar": {"cacheDirs": ["/var/lib/stoker/state/x"]}}, "/var/lib/stoker/state/x is used for something else"),
        ({"sidecar": {"cacheDirs": ["/nfs"], "hostFolders": [NFS]}}, "/nfs is used for something else"),
        ({"sidecar": {"hostFolders": ["/nfs"]}}, "hostFolders"),
        ({"sidecar": {"hostFolders": [{"path": "/nfs"}]}}, "hostFolders"),
        ({"sidecar": {"hostFolders": [NFS | {"namespaces": []}]}}, "hostFolders"),
        ({"sidecar": {"hostFolders": [NFS, NFS | {"namespaces": ["b"]}]}}, "names /nfs twice"),
        ({"sidecar": {"ambientCredentials": {"namespaces": ["a,b"]}}}, "ambientCredentials"),
        ({"sidecar": {"endpoints": {"allow": ["localhost"]}}}, "allow"),
        ({"sidecar": {"fetch": {"workers": "auto"}}}, "workers"),
        ({"sidecar": {"overlay": "On"}}, "overlay"),
        ({"sidecar": {"neighbours": {"uploads": -1}}}, "uploads"),
        ({"sidecar": {"neighbours": {"bytesPerSecond": "fast"}}}, "bytesPerSecond"),
        *(
            ({"sidecar": {"neighbours": {"rackLabel": label}}}, "rackLabel")
            for label in ("a rack", "-rack", "x.io/", "/r")
        ),
        ({"sidecar": {"neighbours": {"mode": "On"}}}, "mode"),
        ({"sidecar": {"fetch": {"lastFiles": "On"}}}, "lastFiles"),
        ({"sidecar": {"fetch": {"lastFiles": True}}}, "lastFiles"),
        ({"origins": {"price": {"perGB": "0.09"}}}, "perGB"),
        ({"origins": {"price": {"perGB": -1}}}, "perGB"),
        ({"origins": {"price": {"perGiB": 1}}}, "perGiB"),
        ({"origins": {"caps": [{"bucket": "archive", "price": {"perThousandRequests": -1}}]}}, "perThousandRequests"),
        ({"origins": {"caps": [{"bucket": "archive", "bytesPerSecond": "fast"}]}}, "bytesPerSecond"),
        ({"sidecar": {"observe": {"mode": "On"}}}, "observe"),
        ({"sidecar": {"observe": {"cpu": "5%"}}}, "cpu"),
        ({"sidecar": {"plugins": ["No Name"]}}, "plugins"),
        ({"sidecar": {"orderPlugins": ["plugin:mine"]}}, "orderPlugins"),
        ({"sidecar": {"hostPID": "yes"}}, "hostPID"),
        ({"webhook": {"failurePolicy": "fail"}}, "failurePolicy"),
        ({"logLevel": "loud"}, "logLevel"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, Any], word: str) -> None:
    done = helm("template", "stoker", str(CHART), "--namespace", NAMESPACE, "--values", "-", stdin=json.dumps(values))
    assert done.returncode != 0
    assert word in done.stderr


@pytest.mark.parametrize(
    ("values", "expected"), [({}, ("Auto", False)), ({"overlay": "Off", "hostPID": True}, ("Off", True))]
)
def test_overlays_are_tried_and_other_processes_not_seen_unless_asked_for(
    values: Mapping[str, Any], expected: tuple[str, bool]
) -> None:
    (sidecar,) = of_kind(render({"sidecar": values}), "DaemonSet")
    pod = sidecar["spec"]["template"]["spec"]
    (overlay,) = (one["value"] for one in pod["containers"][0]["env"] if one["name"] == "STOKER_OVERLAY")
    assert (overlay, pod["hostPID"]) == expected


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
    assert tuple(variable(sidecar, name) for name in names) == expected


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
    assert tuple(variable(operator, name) for name in ("STOKER_NEIGHBOURS", "STOKER_RACK_LABEL")) == expected


@pytest.mark.parametrize(("enabled", "operator", "sidecar"), [(True, "true", "On"), (False, "false", "Off")])
def test_reports_are_turned_on_and_off_for_operator_and_sidecar_together(
    enabled: bool, operator: str, sidecar: str
) -> None:
    rendered = render({"reports": {"enabled": enabled}})
    values = [variable(workload, "STOKER_REPORTS") for workload in of_kind(rendered, "Deployment", "DaemonSet")]
    assert sorted(values) == sorted([operator, sidecar])


def variable(workload: dict[str, Any], name: str) -> str:
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return next(str(one["value"]) for one in container["env"] if one["name"] == name)


@pytest.mark.parametrize(
    ("values", "mode", "cgroups"),
    [({}, "Auto", True), ({"mode": "Off", "pressure": False}, "Off", False), ({"mode": False}, "Off", True)],
)
def test_nodes_look_at_what_pods_read_unless_it_is_off(values: Mapping[str, Any], mode: str, cgroups: bool) -> None:
    (sidecar,) = of_kind(render({"sidecar": {"observe": values}}), "DaemonSet")
    (container,) = sidecar["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert variables["STOKER_OBSERVE"] == mode
    assert (variables.get("STOKER_CGROUP_ROOT") in mounts) is cgroups
    assert all(one.get("readOnly") for path, one in mounts.items() if path == variables.get("STOKER_CGROUP_ROOT"))


@pytest.mark.parametrize(
    ("values", "names"),
    [({}, "pytorch,tensorflow,jax,huggingface"), ({"plugins": ["paddle"]}, "paddle"), ({"plugins": []}, "")],
)
def test_nodes_may_ask_the_plug_ins_that_are_named(values: Mapping[str, Any], names: str) -> None:
    (sidecar,) = of_kind(render({"sidecar": values}), "DaemonSet")
    assert variable(sidecar, "STOKER_PLUGINS") == names


@pytest.mark.parametrize(("values", "names"), [({}, ""), ({"orderPlugins": ["mine", "yours"]}, "mine,yours")])
def test_no_order_plug_in_may_be_asked_that_is_not_named(values: Mapping[str, Any], names: str) -> None:
    (sidecar,) = of_kind(render({"sidecar": values}), "DaemonSet")
    assert variable(sidecar, "STOKER_ORDER_PLUGINS") == names
