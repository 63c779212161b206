"""Tells the kubelet that this driver is here: the kubelet finds the socket in plugins_registry and asks."""

import logging
from pathlib import Path

from stoker_api import names
from stoker_sidecar.agent.csi.pb import registration_pb2
from stoker_sidecar.agent.csi.rpc import Method

log = logging.getLogger(__name__)

# The major version of CSI; the kubelet wants it written out as a full version.
_CSI_VERSIONS = ["1.0.0"]


class RegistrationService:
    """``endpoint``: the CSI socket as the kubelet sees it. ``error``: why the kubelet refused, empty when it did not."""

    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint
        self.registered = False
        self.error = ""

    def methods(self) -> dict[str, Method]:
        """The service's methods by name."""
        return {
            "GetInfo": Method(registration_pb2.InfoRequest, self.get_info),
            "NotifyRegistrationStatus": Method(registration_pb2.RegistrationStatus, self.notify),
        }

    async def get_info(self, _request: registration_pb2.InfoRequest) -> registration_pb2.PluginInfo:
        """Name and place of the driver."""
        return registration_pb2.PluginInfo(
            type="CSIPlugin", name=names.CSI_DRIVER, endpoint=str(self._endpoint), supported_versions=_CSI_VERSIONS
        )

    async def notify(self, request: registration_pb2.RegistrationStatus) -> registration_pb2.RegistrationStatusResponse:
        """The kubelet's verdict; after a refusal it asks again by itself."""
        self.registered, self.error = request.plugin_registered, request.error
        if not self.registered:
            log.error(
                "the kubelet did not register the driver: %s; pods cannot mount datasets here until it does", self.error
            )
        return registration_pb2.RegistrationStatusResponse()
