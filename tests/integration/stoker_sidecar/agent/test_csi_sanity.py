"""csi-sanity, the Container Storage Interface's own conformance suite, passes for this driver's services.

Identity and node.
"""

import asyncio
import itertools
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from e2e.cluster.build import Programs
from stoker_api import names
from stoker_sidecar.agent.csi.driver import Driver, IdentityService
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.csi.request import parse_publish
from stoker_sidecar.agent.csi.rpc import serve
from stoker_sidecar.volumes.core.publish import PublishRequest
from tests.support.csi_driver import node_folder, running_driver, write_version

pytestmark = pytest.mark.root

# The kubelet's additions for an inline volume, and the attribute that a user writes.
CONTEXT = {
    "dataset": "imagenet",
    names.CSI_POD_NAMESPACE: "vision",
    names.CSI_POD_NAME: "trainer-0",
    names.CSI_POD_UID: "u1",
    names.CSI_EPHEMERAL: "true",
}


def field(number: int, value: bytes) -> bytes:
    """Encode one length-delimited field in protocol buffers' wire format (shorter than 128 bytes)."""
    return bytes([number << 3 | 2, len(value)]) + value


class Provisioner:
    """The Controller service that the suite's node tests need to make volumes.

    The operator makes Stoker's volumes.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def handler(self) -> "grpc.GenericRpcHandler[Any, Any]":
        """Answer CreateVolume, DeleteVolume and no capability, with raw messages: the stubs have no controller."""
        answers = {"CreateVolume": self._create, "DeleteVolume": self._empty, "ControllerGetCapabilities": self._empty}
        methods = {name: grpc.unary_unary_rpc_method_handler(answer) for name, answer in answers.items()}
        return grpc.method_handlers_generic_handler("csi.v1.Controller", methods)

    async def _create(self, _request: bytes, _context: object) -> bytes:
        pairs = [field(1, key.encode()) + field(2, value.encode()) for key, value in CONTEXT.items()]
        volume = field(2, f"csi-sanity-{next(self._numbers)}".encode()) + b"".join(field(3, pair) for pair in pairs)
        # The volume is longer than 127 bytes: its length takes two bytes.
        return bytes([1 << 3 | 2, len(volume) & 0x7F | 0x80, len(volume) >> 7]) + volume

    async def _empty(self, _request: bytes, _context: object) -> bytes:
        return b""


# Features that the suite accepts as absent: staging, expansion and the health calls are optional in CSI.
ABSENT = {
    "NodeStageVolume not supported",
    "NodeUnstageVolume not supported",
    "NodeExpandVolume not supported",
    "NodeGetVolumeHealth not supported",
    "NodeGetStorageHealth not supported",
    "Service does not have single node multi writer capability",
}


async def claim_controller(_self: IdentityService, _request: Message) -> csi_pb2.GetPluginCapabilitiesResponse:
    """Answer for Identity as a driver with a controller does."""
    service = csi_pb2.PluginCapability.Service(type=csi_pb2.PluginCapability.Service.CONTROLLER_SERVICE)
    return csi_pb2.GetPluginCapabilitiesResponse(capabilities=[csi_pb2.PluginCapability(service=service)])


def parse_as_read_only(request: csi_pb2.NodePublishVolumeRequest, kubelet_dir: Path) -> PublishRequest:
    """Parse a request of the suite. It cannot make its volumes read-only, but inline volumes must be."""
    request.readonly = True
    return parse_publish(request, kubelet_dir)


@asynccontextmanager
async def provisioner(socket: Path) -> AsyncIterator[Path]:
    """Serve a Controller service on a separate socket."""
    async with serve(socket, [Provisioner().handler()]):
        yield socket


async def run_suite(program: Path, folder: Path, driver: Driver, *flags: str) -> dict[str, str]:
    """Run csi-sanity. Return "passed" for each test, or the reason why it was skipped.

    Fails if the suite fails.
    """
    report = folder / "report.json"
    process = await asyncio.create_subprocess_exec(
        program,
        f"-csi.endpoint={driver.csi_socket}",
        f"-csi.mountdir={driver.kubelet_dir / 'target'}",
        f"-csi.stagingdir={folder / 'staging'}",
        f"-ginkgo.json-report={report}",
        "-ginkgo.no-color",
        *flags,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-8000:]
    return outcomes(json.loads(report.read_text()))


def outcomes(report: Any) -> dict[str, str]:
    """Test name -> outcome. Tests outside the focus have no reason and are not listed."""
    specs = [spec for suite in report for spec in suite["SpecReports"] if spec["LeafNodeType"] == "It"]
    named = {" ".join([*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]]): spec for spec in specs}
    stated = {name: spec.get("Failure", {}).get("Message", spec["State"]) for name, spec in named.items()}
    return {name: outcome for name, outcome in stated.items() if outcome not in ("skipped", "pending", "")}


@pytest.fixture(scope="module")
def sanity() -> Path:
    """Return the suite's program from the harness's cache. It is built if missing."""
    return Programs().path("csi-sanity")


@pytest.mark.timeout(600)  # the suite takes seconds; its first build takes a minute or two
async def test_the_identity_service_passes_whole(sanity: Path) -> None:
    with node_folder() as folder:
        async with running_driver(folder, write_version(folder / "cache")) as running:
            result = await run_suite(sanity, folder, running.driver, "-ginkgo.focus=Identity Service")
    assert result
    assert set(result.values()) == {"passed"}


@pytest.mark.timeout(600)
async def test_the_node_service_passes_whole_with_real_mounts(sanity: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a controller the suite leaves out every test that mounts.
    monkeypatch.setattr(IdentityService, "get_plugin_capabilities", claim_controller)
    monkeypatch.setattr("stoker_sidecar.agent.csi.driver.parse_publish", parse_as_read_only)
    with node_folder() as folder:
        info = write_version(folder / "cache")
        async with running_driver(folder, info) as running, provisioner(folder / "controller.sock") as controller:
            flags = (f"-csi.controllerendpoint={controller}", "-ginkgo.focus=Node Service")
            result = await run_suite(sanity, folder, running.driver, *flags)
            assert running.publisher.rows() == ()
    assert set(result.values()) - ABSENT == {"passed"}
    assert result["Node Service should be idempotent"] == "passed"
