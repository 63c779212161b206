"""What the webhook adds so that a pod can report, and when it adds nothing."""

from typing import Any

import jsonpatch
import pytest

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_operator.core.pods.injection import decide_injection
from stoker_operator.core.views.cluster import parse_pod
from tests.support.cases import cases
from tests.unit.stoker_operator.core.test_injection import CATALOG, NAMESPACE, V2, make_pod

ATTRIBUTES = {"dataset": "imagenet", "datasetNamespace": NAMESPACE, "version": V2, "report": "true"}


def injected(pod: dict[str, Any]) -> dict[str, Any]:
    patch = decide_injection(pod, NAMESPACE, CATALOG, reports=True)
    assert not isinstance(patch, Refusal), patch
    changed: dict[str, Any] = jsonpatch.apply_patch(pod, list(patch))
    return changed


def reports(pod: dict[str, Any], index: int = 0) -> bool:
    mounts = injected(pod)["spec"]["containers"][index].get("volumeMounts", [])
    return any(one["name"] == "stoker-report" for one in mounts)


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "main"} | fields


def at(path: str, name: str = "own", **fields: Any) -> dict[str, Any]:
    return container(volumeMounts=[{"name": name, "mountPath": path} | fields])


def test_a_pod_gets_a_volume_of_its_own_for_reports_that_older_sidecars_can_mount() -> None:
    volumes = {one["name"]: one for one in injected(make_pod())["spec"]["volumes"]}
    assert volumes["stoker-report"]["csi"] == {
        "driver": names.CSI_DRIVER,
        "readOnly": True,
        "volumeAttributes": ATTRIBUTES,
    }


def test_each_container_finds_it_by_path_and_variable() -> None:
    pod = injected(make_pod(initContainers=[{"name": "fetch"}], containers=[{"name": "a"}, {"name": "b"}]))
    for one in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        assert one["env"] == [{"name": "STOKER_REPORT_SOCKET", "value": "/run/stoker/report.sock"}]
        (mount,) = [mount for mount in one["volumeMounts"] if mount["name"] == "stoker-report"]
        assert (mount["mountPath"], mount["readOnly"]) == ("/run/stoker", True)


def test_deciding_again_changes_nothing() -> None:
    assert decide_injection(injected(make_pod()), NAMESPACE, CATALOG, reports=True) == ()


def test_without_the_chart_s_word_nothing_is_added() -> None:
    patch = decide_injection(make_pod(), NAMESPACE, CATALOG)
    assert "stoker-report" not in str(patch)


def annotated(name: str, value: str, **spec: Any) -> dict[str, Any]:
    pod = make_pod(**spec)
    pod["metadata"]["annotations"][name] = value
    return pod


@cases(
    "pod",
    by_an_annotation=annotated(names.ANNOTATION_REPORT, "false"),
    by_an_annotation_in_other_letters=annotated(names.ANNOTATION_REPORT, " False "),
    for_its_user_namespace=make_pod(hostUsers=False),
    for_a_dataset_at_that_place=make_pod("imagenet:/run/stoker"),
    for_a_volume_of_that_name=make_pod(volumes=[{"name": "stoker-report", "emptyDir": {}}]),
)
def test_a_pod_is_left_out(pod: dict[str, Any]) -> None:
    assert not reports(pod)


@pytest.mark.parametrize("path", ["/run/stoker", "/run", "/var/run/", "/run/stoker/inner", "/var/run/stoker"])
def test_a_container_without_a_place_for_it_goes_without(path: str) -> None:
    pod = make_pod(containers=[at(path), container(name="other")])
    assert not reports(pod)
    assert reports(pod, 1)


def test_a_pod_without_any_place_gets_no_volume() -> None:
    assert "stoker-report" not in str(injected(make_pod(containers=[at("/run")])))


def test_a_variable_that_the_pod_sets_stays() -> None:
    mine = {"name": "STOKER_REPORT_SOCKET", "value": "/mine"}
    assert injected(make_pod(containers=[container(env=[mine])]))["spec"]["containers"][0]["env"] == [mine]


def test_it_goes_into_the_containers_that_are_named_alone() -> None:
    pod = annotated(names.ANNOTATION_CONTAINERS, "b", containers=[{"name": "a"}, {"name": "b"}])
    assert (reports(pod, 0), reports(pod, 1)) == (False, True)


def test_a_report_volume_is_not_taken_for_the_dataset_that_it_names() -> None:
    pod = make_pod(
        volumes=[{"name": "stoker-report", "csi": {"driver": names.CSI_DRIVER, "volumeAttributes": ATTRIBUTES}}]
    )
    volumes = [one["csi"]["volumeAttributes"] for one in injected(pod)["spec"]["volumes"]]
    assert volumes == [ATTRIBUTES, {key: value for key, value in ATTRIBUTES.items() if key != "report"}]
    assert parse_pod({"metadata": {"name": "p", "namespace": NAMESPACE}, "spec": pod["spec"]}).volumes == ()
