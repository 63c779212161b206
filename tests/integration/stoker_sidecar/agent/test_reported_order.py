"""The agent as a whole follows the order that a pod reports, and shows its source."""

import asyncio
import json
from pathlib import Path

import grpc
import pytest

from stoker_api import names
from stoker_kube.api import Object
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.wire.reader_protocol import SOCKET
from stoker_sidecar.wire.reports_protocol import Heard, encode
from stoker_tuning.reports.figures import ReportFigures
from stoker_tuning.reports.line import parse_line
from tests.fakes.kube import FakeKube
from tests.fakes.volumes import UID
from tests.support.agent_node import DATASET, RunningAgent, agent_node
from tests.support.csi_driver import write_version
from tests.support.version_readers import process_reader
from tests.support.waiting import eventually

pytestmark = [pytest.mark.root]
POD = "pod-1"
_MODE = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
_SAID = {"sampler": "stoker-shuffle", "seed": 3, "files": {"layout": "Shards"}}


async def publish(node: RunningAgent, volume: str, **attributes: str) -> Path:
    target = node.folder / "kubelet-dir" / "pods" / POD / volume
    who = {names.CSI_POD_NAMESPACE: "vision", names.CSI_POD_NAME: POD, names.CSI_POD_UID: POD}
    message = csi_pb2.NodePublishVolumeRequest(
        volume_id=f"csi-{volume}",
        target_path=str(target),
        volume_capability={"mount": {}, "access_mode": {"mode": _MODE}},
        readonly=True,
        volume_context=who | {names.CSI_EPHEMERAL: "true", "dataset": "digits"} | attributes,
    )
    await call(node, "Publish", message)
    return target


async def unpublish(node: RunningAgent, volume: str, target: Path) -> None:
    await call(
        node, "Unpublish", csi_pb2.NodeUnpublishVolumeRequest(volume_id=f"csi-{volume}", target_path=str(target))
    )


async def call(node: RunningAgent, what: str, message: object) -> None:
    socket = node.folder / "kubelet-dir" / "plugins" / names.CSI_DRIVER / "csi.sock"
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        method = channel.unary_unary(
            f"/csi.v1.Node/Node{what}Volume",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=lambda answer: answer,
        )
        await method(message, timeout=30, wait_for_ready=True)


def shown(node: RunningAgent) -> list[Object]:
    return list(node.status.get("workloads", []))


async def test_an_order_that_a_pod_reports_is_followed(kube: FakeKube, folder: Path) -> None:
    info = write_version(folder / "cache-root")
    figures = ReportFigures()
    figures.add(parse_line(json.dumps({"sampling": json.dumps(_SAID)}).encode()), 0.0)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if POD in line.decode():
                writer.write(encode(Heard({POD: figures.summary(0.0)})))
        writer.close()

    (folder / "state-dir" / "reports").mkdir(parents=True)
    listener = await asyncio.start_unix_server(speak, folder / "reports.sock")
    async with listener, process_reader(folder / SOCKET), agent_node(kube, folder) as node:
        await node.plan(DATASET | {"uid": UID, "version": info.digest})
        data, report = await publish(node, "data"), await publish(node, "report", report="true")
        try:
            # Changes of a pod that is already in the status wait 10 s.
            await eventually(lambda: any(row.get("orderSource") == "Report" for row in shown(node)), 30.0)
            assert shown(node)[0]["order"] == "Unknown"
            assert "too few to tell" in shown(node)[0]["orderMessage"]
        finally:
            await unpublish(node, "data", data)
            await unpublish(node, "report", report)
