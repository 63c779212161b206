"""The driver over real sockets and with real mounts, with the kubelet's calls."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from stoker_api import names
from stoker_sidecar.agent.csi.pb import csi_pb2, registration_pb2
from stoker_sidecar.agent.csi.rpc import MOST_ERROR
from stoker_sidecar.linux.mounts import target_mounts
from tests.support.csi_driver import FILES, RunningDriver, node_folder, running_driver, write_version
from tests.support.json_log import json_log

pytestmark = pytest.mark.root


@pytest.fixture
async def driver() -> AsyncIterator[RunningDriver]:
    with node_folder() as folder:
        info = write_version(folder / "cache")
        async with running_driver(folder, info) as running:
            yield running


def publish_message(target: Path, **attributes: str) -> csi_pb2.NodePublishVolumeRequest:
    mode = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
    pod = {names.CSI_POD_NAMESPACE: "vision", names.CSI_POD_UID: "u1", names.CSI_EPHEMERAL: "true"}
    return csi_pb2.NodePublishVolumeRequest(
        volume_id="csi-1",
        target_path=str(target),
        volume_capability={"mount": {}, "access_mode": {"mode": mode}},
        readonly=True,
        volume_context=pod | {"dataset": "imagenet"} | attributes,
    )


async def publish(driver: RunningDriver, target: Path, **attributes: str) -> None:
    request = publish_message(target, **attributes)
    await driver.call("csi.v1.Node/NodePublishVolume", request, csi_pb2.NodePublishVolumeResponse)


async def unpublish(driver: RunningDriver, target: Path) -> None:
    request = csi_pb2.NodeUnpublishVolumeRequest(volume_id="csi-1", target_path=str(target))
    await driver.call("csi.v1.Node/NodeUnpublishVolume", request, csi_pb2.NodeUnpublishVolumeResponse)


async def test_a_published_dataset_is_read_from_the_target(driver: RunningDriver) -> None:
    target = driver.pods / "u1" / "mount"
    await publish(driver, target)
    assert {path: (target / path).read_bytes() for path in FILES} == FILES


async def test_json_lines_about_a_mount_have_the_pod_s_uid(driver: RunningDriver) -> None:
    target = driver.pods / "u1" / "mount"
    with json_log("stoker_sidecar") as lines:
        await publish(driver, target)
        await unpublish(driver, target)
    assert [(line["uid"], line["node"]) for line in lines] == [("u1", "node-1")] * len(lines)
    assert [line["message"].split()[0] for line in lines][-2:] == ["NodePublishVolume", "NodeUnpublishVolume"]


async def test_a_published_dataset_cannot_be_written(driver: RunningDriver) -> None:
    target = driver.pods / "u1" / "mount"
    await publish(driver, target)
    with pytest.raises(OSError, match="Read-only file system"):
        (target / "new").touch()


async def test_unpublish_leaves_neither_mount_nor_folder(driver: RunningDriver) -> None:
    target = driver.pods / "u1" / "mount"
    for _ in range(3):
        await publish(driver, target)
    for _ in range(2):
        await unpublish(driver, target)
    assert target_mounts.layers(target) == ()
    assert not target.exists()


async def test_stats_are_those_of_the_version(driver: RunningDriver) -> None:
    target = driver.pods / "u1" / "mount"
    await publish(driver, target)
    request = csi_pb2.NodeGetVolumeStatsRequest(volume_id="csi-1", volume_path=str(target))
    answer = await driver.call("csi.v1.Node/NodeGetVolumeStats", request, csi_pb2.NodeGetVolumeStatsResponse)
    assert isinstance(answer, csi_pb2.NodeGetVolumeStatsResponse)
    assert [usage.total for usage in answer.usage] == [sum(map(len, FILES.values())), len(FILES)]
    assert not answer.volume_condition.abnormal


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"dataset": ""}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"dataset": "unknown"}, grpc.StatusCode.UNAVAILABLE),
        ({names.CSI_POD_NAMESPACE: "stranger", "datasetNamespace": "vision"}, grpc.StatusCode.PERMISSION_DENIED),
    ],
)
async def test_a_refusal_has_its_code_and_a_sentence(
    driver: RunningDriver, attributes: dict[str, str], code: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await publish(driver, driver.pods / "u1" / "mount", **attributes)
    assert caught.value.code() is code
    assert " " in (caught.value.details() or "")


async def test_an_error_is_short_however_long_what_was_asked_is(driver: RunningDriver) -> None:
    request = csi_pb2.NodeGetVolumeStatsRequest(volume_id="é" * 900_000, volume_path="/x")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await driver.call("csi.v1.Node/NodeGetVolumeStats", request, csi_pb2.NodeGetVolumeStatsResponse)
    assert len((caught.value.details() or "").encode()) <= MOST_ERROR


async def test_methods_that_the_driver_does_not_have_are_unimplemented(driver: RunningDriver) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await driver.call("csi.v1.Node/NodeStageVolume", csi_pb2.NodeGetInfoRequest(), csi_pb2.NodeGetInfoResponse)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_every_call_is_counted_with_its_outcome(driver: RunningDriver) -> None:
    target = driver.pods / "u1" / "mount"
    await publish(driver, target)
    with pytest.raises(grpc.aio.AioRpcError):
        await publish(driver, Path("/etc"))
    assert driver.calls == [("NodePublishVolume", "OK"), ("NodePublishVolume", "INVALID_ARGUMENT")]


async def test_the_kubelet_learns_where_the_driver_listens(driver: RunningDriver) -> None:
    method = "pluginregistration.Registration/GetInfo"
    info = await driver.call(method, registration_pb2.InfoRequest(), registration_pb2.PluginInfo)
    assert isinstance(info, registration_pb2.PluginInfo)
    assert (info.type, info.name, info.endpoint) == ("CSIPlugin", names.CSI_DRIVER, str(driver.driver.csi_socket))


async def test_a_socket_left_by_a_killed_agent_is_replaced(driver: RunningDriver) -> None:
    """The fixture's sockets are at the paths of a second driver of the same node."""
    async with running_driver(driver.driver.kubelet_dir.parent, write_version(driver.pods.parent / "other")) as second:
        answer = await second.call("csi.v1.Node/NodeGetInfo", csi_pb2.NodeGetInfoRequest(), csi_pb2.NodeGetInfoResponse)
        assert isinstance(answer, csi_pb2.NodeGetInfoResponse)
        assert answer.node_id == "node-1"
