"""What the webhook adds to a pod with scratch, and what it rejects."""

from typing import Any

from stoker_api import names
from stoker_operator.core.pods.injection import inline_volume_name
from tests.support.cases import cases
from tests.unit.stoker_operator.core.test_injection import V2, injected, make_pod, mounts, refused

OWN = {"dataset": "imagenet", "version": V2}


def own_volume(**attributes: str) -> list[dict[str, Any]]:
    return [{"name": "own", "csi": {"driver": names.CSI_DRIVER, "volumeAttributes": OWN | attributes}}]


def test_volume_and_mount_are_writable() -> None:
    pod = injected(make_pod("imagenet:/data,scratch=20Gi, team-b/coco:/coco"))
    written, read = pod["spec"]["volumes"]
    assert written["csi"]["volumeAttributes"]["scratch"] == "20Gi"
    assert ("readOnly" in written["csi"], read["csi"]["readOnly"]) == (False, True)
    assert mounts(pod)[0] == {
        "name": inline_volume_name("vision/imagenet"),
        "mountPath": "/data",
        "mountPropagation": "HostToContainer",
    }
    assert mounts(pod)[1]["readOnly"]


def test_two_paths_of_one_dataset_show_one_layer() -> None:
    pod = injected(make_pod("imagenet:/a,scratch=1Gi, imagenet:/b,scratch=1Gi"))
    assert len(pod["spec"]["volumes"]) == 1
    assert [mount["mountPath"] for mount in mounts(pod)] == ["/a", "/b"]


def test_an_own_volume_with_the_same_scratch_is_used() -> None:
    pod = injected(make_pod("imagenet:/data,scratch=1Gi", volumes=own_volume(scratch="1Gi")))
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["own"]
    assert "readOnly" not in mounts(pod)[0]


@cases(
    "pod, part",
    a_user_namespace=(make_pod("imagenet:/data,scratch=1Gi", hostUsers=False), "has hostUsers: false"),
    an_own_read_only_volume=(make_pod("imagenet:/data,scratch=1Gi", volumes=own_volume()), "its own volume of it"),
    another_size=(make_pod("imagenet:/data,scratch=1Gi", volumes=own_volume(scratch="2Gi")), "its own volume of it"),
    no_size=(make_pod("imagenet:/data,scratch="), "must be a size from 64.0 MiB to 8.0 TiB"),
)
def test_scratch_that_no_node_can_mount_is_refused(pod: dict[str, Any], part: str) -> None:
    assert part in refused(pod)
