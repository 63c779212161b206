"""Log lines of CSI calls name volume, Dataset and pod."""

from google.protobuf.message import Message

from stoker_api import names
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.csi.rpc import subject
from tests.support.cases import cases

POD = {names.CSI_POD_NAMESPACE: "vision", names.CSI_POD_NAME: "resnet-0"}
TARGET = "/var/lib/kubelet/pods/0c6e-11/volumes/kubernetes.io~csi/data/mount"


@cases(
    "request_, line",
    (
        csi_pb2.NodePublishVolumeRequest(
            volume_id="csi-1",
            target_path=TARGET,
            volume_context=POD | {names.CSI_ATTRIBUTE_DATASET: "imagenet"},
        ),
        " volume=csi-1 dataset=vision/imagenet pod=vision/resnet-0",
    ),
    (
        csi_pb2.NodePublishVolumeRequest(
            volume_id="team-b/coco",
            volume_context=POD | {names.CSI_ATTRIBUTE_DATASET: "coco", names.CSI_ATTRIBUTE_DATASET_NAMESPACE: "team-b"},
        ),
        " volume=team-b/coco dataset=team-b/coco pod=vision/resnet-0",
    ),
    (
        csi_pb2.NodeUnpublishVolumeRequest(volume_id="csi-1", target_path=TARGET),
        " volume=csi-1 pod=0c6e-11",
    ),
    (csi_pb2.NodeGetInfoRequest(), ""),
)
def test_a_line_names_what_the_request_says(request_: Message, line: str) -> None:
    assert subject(request_) == line


def test_a_name_of_any_length_makes_a_short_line() -> None:
    context = {names.CSI_ATTRIBUTE_DATASET: "d" * 9000}
    assert len(subject(csi_pb2.NodePublishVolumeRequest(volume_id="v" * 9000, volume_context=context))) < 500
