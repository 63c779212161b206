"""The CSI Identity service: who this driver is and whether it can work yet."""

from collections.abc import Callable

from google.protobuf.wrappers_pb2 import BoolValue

from stoker_api import names
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.csi.rpc import Method


class IdentityService:
    """``is_ready`` says whether the agent has seen this node's plan."""

    def __init__(self, version: str, is_ready: Callable[[], bool]) -> None:
        self._version = version
        self._is_ready = is_ready

    def methods(self) -> dict[str, Method]:
        """The service's methods by name."""
        return {
            "GetPluginInfo": Method(csi_pb2.GetPluginInfoRequest, self.get_plugin_info),
            "GetPluginCapabilities": Method(csi_pb2.GetPluginCapabilitiesRequest, self.get_plugin_capabilities),
            "Probe": Method(csi_pb2.ProbeRequest, self.probe),
        }

    async def get_plugin_info(self, _request: csi_pb2.GetPluginInfoRequest) -> csi_pb2.GetPluginInfoResponse:
        """Name and version."""
        return csi_pb2.GetPluginInfoResponse(name=names.CSI_DRIVER, vendor_version=self._version)

    async def get_plugin_capabilities(
        self, _request: csi_pb2.GetPluginCapabilitiesRequest
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """None: there is no controller service, since volumes are Datasets that the operator knows."""
        return csi_pb2.GetPluginCapabilitiesResponse()

    async def probe(self, _request: csi_pb2.ProbeRequest) -> csi_pb2.ProbeResponse:
        """Ready or still starting."""
        return csi_pb2.ProbeResponse(ready=BoolValue(value=self._is_ready()))
