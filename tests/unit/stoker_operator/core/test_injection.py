"""What the webhook adds to an annotated pod, and what it rejects."""

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.jobs.pod_annotations import Refusal
from stoker_operator.core.pods.injection import decide_injection, inline_volume_name, pointer
from stoker_operator.core.views.catalog import CatalogEntry
from tests.support.cases import cases

NAMESPACE = "vision"
V1, V2 = "1" * 64, "2" * 64
CATALOG = {
    entry.key: entry
    for entry in (
        CatalogEntry(NAMESPACE, "imagenet", version=V2, older=(V1,)),
        CatalogEntry(NAMESPACE, "cold", mode=SchedulingMode.NONE),
        CatalogEntry(NAMESPACE, "leaving", deleting=True),
        CatalogEntry("team-b", "coco", allowed_namespaces=("vis*",)),
        CatalogEntry("team-c", "secret"),
    )
}


def make_pod(datasets: str = "imagenet:/data", **spec: Any) -> dict[str, Any]:
    annotations = {names.ANNOTATION_DATASETS: datasets}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main"}]} | spec}


def annotate(pod: dict[str, Any], **annotations: str) -> dict[str, Any]:
    keys = {"scheduling": names.ANNOTATION_SCHEDULING, "containers": names.ANNOTATION_CONTAINERS}
    pod["metadata"]["annotations"] |= {keys[key]: value for key, value in annotations.items()}
    return pod


def apply(pod: dict[str, Any], patch: Any) -> dict[str, Any]:
    changed: dict[str, Any] = jsonpatch.apply_patch(pod, list(patch))
    return changed


def injected(pod: dict[str, Any]) -> dict[str, Any]:
    patch = decide_injection(pod, NAMESPACE, CATALOG)
    assert not isinstance(patch, Refusal), patch
    return apply(pod, patch)


def refused(pod: dict[str, Any]) -> str:
    result = decide_injection(pod, NAMESPACE, CATALOG)
    assert isinstance(result, Refusal)
    return result.sentence


def mounts(pod: dict[str, Any], index: int = 0, field: str = "containers") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod["spec"][field][index].get("volumeMounts", [])
    return found


def test_an_annotated_pod_gets_a_read_only_inline_volume() -> None:
    (volume,) = injected(make_pod())["spec"]["volumes"]
    attributes = {"dataset": "imagenet", "datasetNamespace": NAMESPACE, "version": V2}
    assert volume["csi"] == {"driver": names.CSI_DRIVER, "readOnly": True, "volumeAttributes": attributes}


def test_the_mount_is_read_only_and_lets_a_better_tree_in() -> None:
    assert mounts(injected(make_pod())) == [
        {
            "name": inline_volume_name("vision/imagenet"),
            "mountPath": "/data",
            "readOnly": True,
            "mountPropagation": "HostToContainer",
        }
    ]


def test_init_containers_and_containers_all_get_the_mount() -> None:
    pod = injected(make_pod(initContainers=[{"name": "a"}], containers=[{"name": "b"}, {"name": "c"}]))
    assert [len(one) for one in (mounts(pod, 0, "initContainers"), mounts(pod, 0), mounts(pod, 1))] == [1, 1, 1]


def test_only_named_containers_get_the_mount() -> None:
    pod = injected(annotate(make_pod(containers=[{"name": "b"}, {"name": "c"}]), containers="c"))
    assert [len(mounts(pod, 0)), len(mounts(pod, 1))] == [0, 1]


def test_the_pod_gets_the_gate_and_the_label() -> None:
    pod = injected(make_pod())
    assert pod["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]
    assert pod["metadata"]["labels"] == {names.LABEL_MANAGED: "true"}


def test_foreign_gates_volumes_and_labels_stay() -> None:
    pod = make_pod(schedulingGates=[{"name": "kueue"}], volumes=[{"name": "v", "emptyDir": {}}])
    pod["metadata"]["labels"] = {"app": "x"}
    result = injected(pod)
    assert result["spec"]["schedulingGates"] == [{"name": "kueue"}, {"name": names.GATE_WARM}]
    assert result["spec"]["volumes"][0] == {"name": "v", "emptyDir": {}}
    assert result["metadata"]["labels"] == {"app": "x", names.LABEL_MANAGED: "true"}


@cases(
    "pod, gated",
    not_where_the_pod_says_none=(annotate(make_pod(), scheduling="None"), False),
    not_where_the_dataset_says_none=(make_pod("cold:/data"), False),
    not_where_the_node_is_set=(make_pod(nodeName="node-a"), False),
    where_the_strictest_of_its_datasets_asks_for_it=(make_pod("cold:/a, imagenet:/b"), True),
)
def test_a_pod_gets_the_gate(pod: dict[str, Any], gated: bool) -> None:
    assert ("schedulingGates" in injected(pod)["spec"]) is gated


def test_a_dataset_mounted_twice_has_one_volume() -> None:
    pod = injected(make_pod("imagenet:/a, imagenet:/b"))
    assert len(pod["spec"]["volumes"]) == 1
    assert [one["mountPath"] for one in mounts(pod)] == ["/a", "/b"]


def with_claim(**mount: str) -> dict[str, Any]:
    return make_pod(
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "imagenet"}}],
        containers=[{"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/elsewhere"} | mount]}],
    )


def test_a_pod_that_mounts_the_claim_gets_no_other_volume_or_mount() -> None:
    pod = with_claim(mountPropagation="HostToContainer")
    result = injected(pod)
    assert (result["spec"]["volumes"], mounts(result)) == (pod["spec"]["volumes"], mounts(pod))
    assert result["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]


def test_faster_mounts_reach_the_mounts_that_a_pod_brought() -> None:
    assert mounts(injected(with_claim()))[0]["mountPropagation"] == "HostToContainer"


@pytest.mark.parametrize("chosen", [{"mountPropagation": "None"}, {"recursiveReadOnly": "IfPossible"}])
def test_a_mount_that_says_what_it_wants_is_left_as_it_is(chosen: dict[str, str]) -> None:
    assert mounts(injected(with_claim(**chosen))) == [{"name": "v", "mountPath": "/elsewhere"} | chosen]


def test_an_entry_without_path_adds_no_volume() -> None:
    assert "volumes" not in injected(make_pod("imagenet"))["spec"]


def test_an_inline_volume_of_the_users_own_is_used() -> None:
    own = {"name": "mine", "csi": {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "imagenet"}}}
    pod = injected(make_pod(volumes=[own]))
    assert pod["spec"]["volumes"] == [own]
    assert mounts(pod)[0]["name"] == "mine"


def test_a_grant_lets_another_namespace_in() -> None:
    assert injected(make_pod("team-b/coco:/coco"))["spec"]["volumes"][0]["name"] == inline_volume_name("team-b/coco")


@pytest.mark.parametrize("asked", ["imagnet:/data", "coco:/data"])
def test_a_refusal_names_no_dataset_that_was_not_asked_for(asked: str) -> None:
    refusal = decide_injection(make_pod(asked), "vision", CATALOG)
    assert isinstance(refusal, Refusal)
    assert not [key for key in CATALOG if key in refusal.sentence]


def with_mount(**mount: Any) -> dict[str, Any]:
    return make_pod(containers=[{"name": "main", "volumeMounts": [{"name": "v"} | mount]}])


@cases(
    "pod, part",
    (
        make_pod("imagnet:/data"),
        "Dataset vision/imagnet does not exist: create it, or see `kubectl get datasets -n",
    ),
    (make_pod("team-b/cocos:/data"), "kubectl get datasets -n team-b"),
    (make_pod("team-c/secret:/data"), 'add "vision" to its spec.access.namespaces'),
    (make_pod("leaving:/data"), "is being deleted"),
    (make_pod("imagenet:data"), "'imagenet:data'"),
    (make_pod("imagenet:/data, team-b/coco:/data"), "both have the mount path /data"),
    (with_mount(mountPath="/data"), "the volume 'v' is mounted there already"),
    (with_mount(mountPath="/data/"), "the volume 'v' is mounted there already"),
    (with_mount(mountPath="/data/scratch"), "mounted inside it at /data/scratch"),
    (annotate(make_pod(), containers="trainer"), "'trainer'"),
    (annotate(make_pod(), containers=" "), "is empty: its containers are main"),
    (annotate(make_pod(), scheduling="Never"), "'Never'"),
)
def test_what_cannot_work_is_refused_with_a_sentence(pod: dict[str, Any], part: str) -> None:
    assert part in refused(pod)


def test_a_name_that_the_pod_may_not_use_is_never_suggested() -> None:
    assert "team-c" not in refused(make_pod("secret:/data"))


def test_a_dataset_inside_a_writable_volume_is_allowed() -> None:
    pod = with_mount(mountPath="/scratch")
    pod["metadata"]["annotations"][names.ANNOTATION_DATASETS] = "imagenet:/scratch/data"
    assert len(mounts(injected(pod))) == 2


@pytest.mark.parametrize("kind", ["readOnly mount", "configMap"])
def test_a_dataset_inside_a_read_only_volume_is_refused(kind: str) -> None:
    pod = with_mount(mountPath="/scratch", **({"readOnly": True} if kind == "readOnly mount" else {}))
    pod["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "c"}}] if kind == "configMap" else []
    pod["metadata"]["annotations"][names.ANNOTATION_DATASETS] = "imagenet:/scratch/data"
    assert "at /scratch is read-only" in refused(pod)


def test_pointers_are_escaped() -> None:
    assert pointer("metadata", "labels", "a/b~c") == "/metadata/labels/a~1b~0c"


def test_volume_names_are_dns_labels_and_differ_where_slugs_meet() -> None:
    long = "n" * 63 + "/" + "d.x" * 80
    assert len(inline_volume_name(long)) <= 63
    assert inline_volume_name("a/b-c") != inline_volume_name("a-b/c")


PATHS = st.sampled_from(["/data", "/scratch", "/scratch/data", "/x"])
MOUNTS = st.lists(st.fixed_dictionaries({"name": st.sampled_from(["v", "w"]), "mountPath": PATHS}), max_size=2)
CONTAINERS = st.lists(st.one_of(st.just({}), st.fixed_dictionaries({"volumeMounts": MOUNTS})), min_size=1, max_size=3)
ENTRIES = st.sampled_from(["imagenet", "cold", "team-b/coco", "team-c/secret"]).flatmap(
    lambda name: st.one_of(st.just(name), PATHS.map(lambda path: f"{name}:{path}"))
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    containers = [dict(one, name=f"c{index}") for index, one in enumerate(draw(CONTAINERS))]
    pod = make_pod(", ".join(draw(st.lists(ENTRIES, min_size=1, max_size=3))), containers=containers)
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": draw(st.sampled_from(["imagenet", "other"]))}}
    if draw(st.booleans()):
        pod["spec"]["volumes"] = [claim]
    if draw(st.booleans()):
        pod["metadata"]["labels"] = {}
    return pod


@given(pods())
def test_deciding_again_after_the_patch_changes_nothing(pod: dict[str, Any]) -> None:
    patch = decide_injection(pod, NAMESPACE, CATALOG)
    if not isinstance(patch, Refusal):
        assert decide_injection(apply(pod, patch), NAMESPACE, CATALOG) == ()


@given(pods())
def test_no_container_has_two_mounts_at_one_path_by_us(pod: dict[str, Any]) -> None:
    patch = decide_injection(pod, NAMESPACE, CATALOG)
    if isinstance(patch, Refusal):
        return
    for before, after in zip(pod["spec"]["containers"], apply(pod, patch)["spec"]["containers"], strict=True):
        ours = after.get("volumeMounts", [])[len(before.get("volumeMounts", [])) :]
        paths = [one["mountPath"] for one in before.get("volumeMounts", [])]
        assert not {one["mountPath"] for one in ours} & set(paths)


def volume_attributes(pod: dict[str, Any]) -> dict[str, str]:
    (volume,) = pod["spec"]["volumes"]
    found: dict[str, str] = volume["csi"]["volumeAttributes"]
    return found


@cases("datasets, version", ("imagenet:/data", V2), (f"imagenet@{V1[:12]}:/data", V1), (f"imagenet@{V2}:/data", V2))
def test_a_pods_volume_names_the_version_of_its_making(datasets: str, version: str) -> None:
    assert volume_attributes(injected(make_pod(datasets)))["version"] == version


def test_a_dataset_that_is_not_listed_yet_leaves_the_version_open() -> None:
    assert "version" not in volume_attributes(injected(make_pod("team-b/coco:/data")))


def test_a_version_that_is_not_kept_any_more_is_refused() -> None:
    assert "has no version 333333333333: name one of" in refused(make_pod(f"imagenet@{'3' * 12}:/data"))


def test_a_version_and_a_volume_of_the_pods_own_that_names_another_are_refused() -> None:
    csi = {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "imagenet"}}
    pod = make_pod(f"imagenet@{V1[:12]}:/data", volumes=[{"name": "mine", "csi": csi}])
    assert "the pod has the volume 'mine'" in refused(pod)
    csi["volumeAttributes"] = {"dataset": "imagenet", "version": V1}
    assert volume_attributes(injected(pod))["version"] == V1


def test_a_pods_volume_tells_its_node_what_the_spec_hints_at() -> None:
    container = {
        "name": "main",
        "command": ["torchrun", "train.py", "--batch-size", "256"],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    pod = make_pod(containers=[container])
    pod["metadata"]["labels"] = {names.LABEL_TRAINING_JOB: "resnet"}
    told = {name: value for name, value in volume_attributes(injected(pod)).items() if name.startswith("hint")}
    assert told == {
        "hintFramework": "pytorch",
        "hintFrameworkSource": "command",
        "hintBatchSize": "256",
        "hintGpus": "8",
        "hintJob": "resnet",
    }


@pytest.mark.parametrize(("spec", "told"), [({"hostUsers": False}, "true"), ({"hostUsers": True}, None), ({}, None)])
def test_a_pods_volume_tells_its_node_about_a_user_namespace(spec: dict[str, Any], told: str | None) -> None:
    assert volume_attributes(injected(make_pod(**spec))).get("userNamespace") == told


def test_a_pod_that_hints_at_nothing_has_no_other_attributes() -> None:
    assert set(volume_attributes(injected(make_pod()))) == {"dataset", "datasetNamespace", "version"}


@cases(
    "gang, size, sentence",
    ("resnet-1", None, "has the label stoker.dev/gang and not its size"),
    ("resnet-1", "four", "stoker.dev/gang-size is 'four', and it must be a whole number, 1 or more"),
    ("resnet-1", "0", "must be a whole number"),
    ("resnet-1", "-2", "must be a whole number"),
    ("resnet-1", "", "must be a whole number"),
    ("", "4", "stoker.dev/gang-size and no gang"),
)
def test_a_gang_that_would_be_none_is_refused(gang: str, size: str | None, sentence: str) -> None:
    said = refused(in_gang(gang, size))

    assert sentence in said
    assert "label all pods of a gang alike, stoker.dev/gang: resnet-1" in said


@pytest.mark.parametrize(("gang", "size"), [("resnet-1", "4"), ("resnet-1", "1"), ("", None)])
def test_a_gang_with_its_size_is_taken(gang: str, size: str | None) -> None:
    assert injected(in_gang(gang, size))["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]


def test_workers_of_a_training_job_without_datasets_of_its_own_have_a_gang_and_no_size() -> None:
    pod = in_gang("uid-of-the-job", None)
    pod["metadata"]["labels"][names.LABEL_TRAINING_JOB] = "resnet"

    assert injected(pod)["spec"]["schedulingGates"]


def in_gang(gang: str, size: str | None) -> dict[str, Any]:
    pod = make_pod()
    pod["metadata"]["labels"] = {names.LABEL_GANG: gang} if gang else {}
    pod["metadata"]["annotations"] |= {} if size is None else {names.ANNOTATION_GANG_SIZE: size}
    return pod
