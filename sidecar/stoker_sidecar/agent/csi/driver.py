"""The CSI driver: its services Identity and Node on one socket, its registration with the kubelet on another."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.wrappers_pb2 import BoolValue

from stoker_api import names
from stoker_kube.tracing.spans import MountSpans
from stoker_sidecar.agent.csi.pb import csi_pb2, registration_pb2
from stoker_sidecar.agent.csi.request import is_report, parse_publish, parse_report, parse_stats, parse_unpublish
from stoker_sidecar.agent.csi.rpc import Method, Observe, handler, serve
from stoker_sidecar.volumes.core.publish import PublishRequest, VolumeReport
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.report_volumes import ReportVolumes

log = logging.getLogger(__name__)

_Rpc = csi_pb2.NodeServiceCapability.RPC
_CAPABILITIES = (_Rpc.GET_VOLUME_STATS, _Rpc.VOLUME_CONDITION)
# The major version of CSI. The kubelet requires a full version.
_CSI_VERSIONS = ["1.0.0"]


@dataclass(frozen=True)
class Driver:
    """The driver's identity and paths. ``kubelet_dir`` is the path that the kubelet uses, e.g. /var/lib/kubelet."""

    node_name: str
    version: str
    kubelet_dir: Path

    @property
    def csi_socket(self) -> Path:
        """The socket for the kubelet's calls."""
        return self.kubelet_dir / "plugins" / names.CSI_DRIVER / "csi.sock"

    @property
    def registration_socket(self) -> Path:
        """The registration socket, where the kubelet discovers the driver."""
        return self.kubelet_dir / "plugins_registry" / f"{names.CSI_DRIVER}-reg.sock"


class IdentityService:
    """CSI's Identity service. ``is_ready`` returns True after the agent has received this node's plan."""

    def __init__(self, version: str, is_ready: Callable[[], bool]) -> None:
        self._version = version
        self._is_ready = is_ready

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name."""
        return {
            "GetPluginInfo": Method(csi_pb2.GetPluginInfoRequest, self.get_plugin_info),
            "GetPluginCapabilities": Method(csi_pb2.GetPluginCapabilitiesRequest, self.get_plugin_capabilities),
            "Probe": Method(csi_pb2.ProbeRequest, self.probe),
        }

    async def get_plugin_info(self, _request: csi_pb2.GetPluginInfoRequest) -> csi_pb2.GetPluginInfoResponse:
        """Return name and version."""
        return csi_pb2.GetPluginInfoResponse(name=names.CSI_DRIVER, vendor_version=self._version)

    async def get_plugin_capabilities(
        self, _request: csi_pb2.GetPluginCapabilitiesRequest
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """Return no capabilities: there is no controller service, because volumes are Datasets."""
        return csi_pb2.GetPluginCapabilitiesResponse()

    async def probe(self, _request: csi_pb2.ProbeRequest) -> csi_pb2.ProbeResponse:
        """Return True if the driver is ready, or False while it starts."""
        return csi_pb2.ProbeResponse(ready=BoolValue(value=self._is_ready()))


class NodeService:
    """CSI's Node service: converts between messages and the publisher, or the report volumes.

    ``kubelet_dir`` is the kubelet's folder on the node ``node_name``. ``spans``: traces of mounts.
    """

    def __init__(
        self,
        node_name: str,
        kubelet_dir: Path,
        publisher: Publisher,
        reports: ReportVolumes,
        spans: MountSpans | None = None,
    ) -> None:
        self._spans = spans
        self._node_name = node_name
        self._kubelet_dir = kubelet_dir
        self._publisher = publisher
        self._reports = reports

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name, without staging, which a bind mount does not need."""
        return {
            "NodePublishVolume": Method(csi_pb2.NodePublishVolumeRequest, self.publish),
            "NodeUnpublishVolume": Method(csi_pb2.NodeUnpublishVolumeRequest, self.unpublish),
            "NodeGetVolumeStats": Method(csi_pb2.NodeGetVolumeStatsRequest, self.stats),
            "NodeGetCapabilities": Method(csi_pb2.NodeGetCapabilitiesRequest, self.capabilities),
            "NodeGetInfo": Method(csi_pb2.NodeGetInfoRequest, self.info),
        }

    async def publish(self, request: csi_pb2.NodePublishVolumeRequest) -> csi_pb2.NodePublishVolumeResponse:
        """Mount a dataset, or a pod's report folder, at the target path."""
        if is_report(request):
            await self._reports.publish(parse_report(request, self._kubelet_dir))
        else:
            wanted = parse_publish(request, self._kubelet_dir)
            with self._traced(wanted):
                await self._publisher.publish(wanted)
        return csi_pb2.NodePublishVolumeResponse()

    def _traced(self, wanted: PublishRequest) -> AbstractContextManager[None]:
        if self._spans is None:
            return nullcontext()
        dataset = f"{wanted.dataset_namespace}/{wanted.dataset}"
        return self._spans.mounting(wanted.pod_namespace, wanted.pod, wanted.pod_uid, dataset)

    async def unpublish(self, request: csi_pb2.NodeUnpublishVolumeRequest) -> csi_pb2.NodeUnpublishVolumeResponse:
        """Unmount the target path."""
        target = parse_unpublish(request, self._kubelet_dir).target
        await self._reports.unpublish(target)
        # Always: a sidecar without report volumes has mounted a Dataset there.
        await self._publisher.unpublish(target)
        return csi_pb2.NodeUnpublishVolumeResponse()

    async def stats(self, request: csi_pb2.NodeGetVolumeStatsRequest) -> csi_pb2.NodeGetVolumeStatsResponse:
        """Return the version's size, fully used, because nothing can be written.

        The cache disk's figures do not describe the volume. A report volume has no size.
        """
        wanted = parse_stats(request)
        if self._reports.get(wanted.path) is not None:
            return _stats(VolumeReport(0, 0))
        return _stats(await self._publisher.report(wanted.volume_id, wanted.path))

    async def capabilities(self, _request: csi_pb2.NodeGetCapabilitiesRequest) -> csi_pb2.NodeGetCapabilitiesResponse:
        """Return the node's capabilities: volume statistics and condition."""
        offered = [csi_pb2.NodeServiceCapability(rpc=_Rpc(type=kind)) for kind in _CAPABILITIES]
        return csi_pb2.NodeGetCapabilitiesResponse(capabilities=offered)

    async def info(self, _request: csi_pb2.NodeGetInfoRequest) -> csi_pb2.NodeGetInfoResponse:
        """Return the node's name, without a volume limit and a topology."""
        return csi_pb2.NodeGetInfoResponse(node_id=self._node_name)


def _stats(report: VolumeReport) -> csi_pb2.NodeGetVolumeStatsResponse:
    usage = [
        csi_pb2.VolumeUsage(unit=csi_pb2.VolumeUsage.BYTES, total=report.bytes, used=report.bytes),
        csi_pb2.VolumeUsage(unit=csi_pb2.VolumeUsage.INODES, total=report.files, used=report.files),
    ]
    message = report.trouble or "the volume is mounted and answers"
    condition = csi_pb2.VolumeCondition(abnormal=bool(report.trouble), message=message)
    return csi_pb2.NodeGetVolumeStatsResponse(usage=usage, volume_condition=condition)


class RegistrationService:
    """The kubelet's plugin registration: it finds the socket in plugins_registry and calls it.

    ``endpoint`` is the CSI socket as the kubelet sees it. ``error`` is the kubelet's reason for a refusal, or empty.
    """

    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint
        self.registered = False
        self.error = ""

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name."""
        return {
            "GetInfo": Method(registration_pb2.InfoRequest, self.get_info),
            "NotifyRegistrationStatus": Method(registration_pb2.RegistrationStatus, self.notify),
        }

    async def get_info(self, _request: registration_pb2.InfoRequest) -> registration_pb2.PluginInfo:
        """Return name and socket of the driver."""
        return registration_pb2.PluginInfo(
            type="CSIPlugin", name=names.CSI_DRIVER, endpoint=str(self._endpoint), supported_versions=_CSI_VERSIONS
        )

    async def notify(self, request: registration_pb2.RegistrationStatus) -> registration_pb2.RegistrationStatusResponse:
        """Record the kubelet's verdict. After a refusal the kubelet retries."""
        self.registered, self.error = request.plugin_registered, request.error
        if not self.registered:
            log.error(
                "the kubelet did not register the driver: %s; pods cannot mount datasets here until it does", self.error
            )
        return registration_pb2.RegistrationStatusResponse()


@asynccontextmanager
async def serve_driver(
    driver: Driver,
    publisher: Publisher,
    reports: ReportVolumes,
    is_ready: Callable[[], bool],
    observe: Observe,
    spans: MountSpans | None = None,
) -> AsyncIterator[RegistrationService]:
    """Serve both sockets inside the context.

    Registration opens last, because the kubelet then calls the CSI socket at once.
    """
    identity = handler("csi.v1.Identity", IdentityService(driver.version, is_ready).methods(), observe)
    services = NodeService(driver.node_name, driver.kubelet_dir, publisher, reports, spans)
    node = handler("csi.v1.Node", services.methods(), observe)
    registration = RegistrationService(driver.csi_socket)
    registrar = handler("pluginregistration.Registration", registration.methods(), observe)
    async with serve(driver.csi_socket, [identity, node]), serve(driver.registration_socket, [registrar]):
        yield registration
