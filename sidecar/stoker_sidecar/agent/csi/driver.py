"""The CSI driver: its services Identity and Node on one socket, its registration with the kubelet on another."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.wrappers_pb2 import BoolValue

from stoker_api import names
from stoker_sidecar.agent.csi.pb import csi_pb2, registration_pb2
from stoker_sidecar.agent.csi.request import is_report, parse_publish, parse_report, parse_stats, parse_unpublish
from stoker_sidecar.agent.csi.rpc import Method, Observe, handler, serve
from stoker_sidecar.volumes.core.publish import VolumeReport
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.report_volumes import ReportVolumes

log = logging.getLogger(__name__)

_Rpc = csi_pb2.NodeServiceCapability.RPC
_CAPABILITIES = (_Rpc.GET_VOLUME_STATS, _Rpc.VOLUME_CONDITION)
# The major version of CSI, which the kubelet wants written out as a full version.
_CSI_VERSIONS = ["1.0.0"]


@dataclass(frozen=True)
class Driver:
    """Who the driver is and where. ``kubelet_dir`` as the kubelet itself names it, e.g. /var/lib/kubelet."""

    node_name: str
    version: str
    kubelet_dir: Path

    @property
    def csi_socket(self) -> Path:
        """Where the kubelet calls."""
        return self.kubelet_dir / "plugins" / names.CSI_DRIVER / "csi.sock"

    @property
    def registration_socket(self) -> Path:
        """Where the kubelet finds the driver."""
        return self.kubelet_dir / "plugins_registry" / f"{names.CSI_DRIVER}-reg.sock"


class IdentityService:
    """CSI's Identity service. ``is_ready`` says whether the agent has seen this node's plan."""

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
        """Answer name and version."""
        return csi_pb2.GetPluginInfoResponse(name=names.CSI_DRIVER, vendor_version=self._version)

    async def get_plugin_capabilities(
        self, _request: csi_pb2.GetPluginCapabilitiesRequest
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """Answer none: there is no controller service, since volumes are Datasets that the operator knows."""
        return csi_pb2.GetPluginCapabilitiesResponse()

    async def probe(self, _request: csi_pb2.ProbeRequest) -> csi_pb2.ProbeResponse:
        """Answer whether it is ready or still starting."""
        return csi_pb2.ProbeResponse(ready=BoolValue(value=self._is_ready()))


class NodeService:
    """CSI's Node service: converts between messages and the publisher, or the report volumes.

    ``kubelet_dir``: where the kubelet of the node ``node_name`` works.
    """

    def __init__(self, node_name: str, kubelet_dir: Path, publisher: Publisher, reports: ReportVolumes) -> None:
        self._node_name = node_name
        self._kubelet_dir = kubelet_dir
        self._publisher = publisher
        self._reports = reports

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name; staging is not among them, as a bind mount needs none."""
        return {
            "NodePublishVolume": Method(csi_pb2.NodePublishVolumeRequest, self.publish),
            "NodeUnpublishVolume": Method(csi_pb2.NodeUnpublishVolumeRequest, self.unpublish),
            "NodeGetVolumeStats": Method(csi_pb2.NodeGetVolumeStatsRequest, self.stats),
            "NodeGetCapabilities": Method(csi_pb2.NodeGetCapabilitiesRequest, self.capabilities),
            "NodeGetInfo": Method(csi_pb2.NodeGetInfoRequest, self.info),
        }

    async def publish(self, request: csi_pb2.NodePublishVolumeRequest) -> csi_pb2.NodePublishVolumeResponse:
        """Mount a dataset at the target path, or the folder in which a pod reports."""
        if is_report(request):
            await self._reports.publish(parse_report(request, self._kubelet_dir))
        else:
            await self._publisher.publish(parse_publish(request, self._kubelet_dir))
        return csi_pb2.NodePublishVolumeResponse()

    async def unpublish(self, request: csi_pb2.NodeUnpublishVolumeRequest) -> csi_pb2.NodeUnpublishVolumeResponse:
        """Unmount what is at the target path."""
        target = parse_unpublish(request, self._kubelet_dir).target
        await self._reports.unpublish(target)
        # Also after that: a sidecar that knew no report volumes has mounted a Dataset there.
        await self._publisher.unpublish(target)
        return csi_pb2.NodeUnpublishVolumeResponse()

    async def stats(self, request: csi_pb2.NodeGetVolumeStatsRequest) -> csi_pb2.NodeGetVolumeStatsResponse:
        """Answer the version's size, wholly used, since nothing can be written.

        The cache disk's says nothing of the volume. A report volume has none.
        """
        wanted = parse_stats(request)
        if self._reports.get(wanted.path) is not None:
            return _stats(VolumeReport(0, 0))
        return _stats(await self._publisher.report(wanted.volume_id, wanted.path))

    async def capabilities(self, _request: csi_pb2.NodeGetCapabilitiesRequest) -> csi_pb2.NodeGetCapabilitiesResponse:
        """Answer what the node offers: volume statistics and condition."""
        offered = [csi_pb2.NodeServiceCapability(rpc=_Rpc(type=kind)) for kind in _CAPABILITIES]
        return csi_pb2.NodeGetCapabilitiesResponse(capabilities=offered)

    async def info(self, _request: csi_pb2.NodeGetInfoRequest) -> csi_pb2.NodeGetInfoResponse:
        """Answer the node's name; there is no limit of volumes and no topology."""
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
    """The kubelet's plugin registration: it finds the socket in plugins_registry and asks.

    ``endpoint``: the CSI socket as the kubelet sees it. ``error``: why the kubelet refused, empty when it did not.
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
        """Answer name and place of the driver."""
        return registration_pb2.PluginInfo(
            type="CSIPlugin", name=names.CSI_DRIVER, endpoint=str(self._endpoint), supported_versions=_CSI_VERSIONS
        )

    async def notify(self, request: registration_pb2.RegistrationStatus) -> registration_pb2.RegistrationStatusResponse:
        """Note the kubelet's verdict; after a refusal it asks again by itself."""
        self.registered, self.error = request.plugin_registered, request.error
        if not self.registered:
            log.error(
                "the kubelet did not register the driver: %s; pods cannot mount datasets here until it does", self.error
            )
        return registration_pb2.RegistrationStatusResponse()


@asynccontextmanager
async def serve_driver(
    driver: Driver, publisher: Publisher, reports: ReportVolumes, is_ready: Callable[[], bool], observe: Observe
) -> AsyncIterator[RegistrationService]:
    """Serve both sockets while inside. Registration opens last, since the kubelet calls the other one at once."""
    identity = handler("csi.v1.Identity", IdentityService(driver.version, is_ready).methods(), observe)
    node = handler(
        "csi.v1.Node", NodeService(driver.node_name, driver.kubelet_dir, publisher, reports).methods(), observe
    )
    registration = RegistrationService(driver.csi_socket)
    registrar = handler("pluginregistration.Registration", registration.methods(), observe)
    async with serve(driver.csi_socket, [identity, node]), serve(driver.registration_socket, [registrar]):
        yield registration
