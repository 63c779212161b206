"""The CSI Node service: converts between messages and the publisher."""

from pathlib import Path

from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.csi.request import parse_publish, parse_stats, parse_unpublish
from stoker_sidecar.agent.csi.rpc import Method
from stoker_sidecar.volumes.publisher import Publisher

_Rpc = csi_pb2.NodeServiceCapability.RPC
_CAPABILITIES = (_Rpc.GET_VOLUME_STATS, _Rpc.VOLUME_CONDITION)


class NodeService:
    """Volumes of the node ``node_name``, whose kubelet works in ``kubelet_dir``."""

    def __init__(self, node_name: str, kubelet_dir: Path, publisher: Publisher) -> None:
        self._node_name = node_name
        self._kubelet_dir = kubelet_dir
        self._publisher = publisher

    def methods(self) -> dict[str, Method]:
        """The service's methods by name; staging is not among them, as a bind mount needs none."""
        return {
            "NodePublishVolume": Method(csi_pb2.NodePublishVolumeRequest, self.publish),
            "NodeUnpublishVolume": Method(csi_pb2.NodeUnpublishVolumeRequest, self.unpublish),
            "NodeGetVolumeStats": Method(csi_pb2.NodeGetVolumeStatsRequest, self.stats),
            "NodeGetCapabilities": Method(csi_pb2.NodeGetCapabilitiesRequest, self.capabilities),
            "NodeGetInfo": Method(csi_pb2.NodeGetInfoRequest, self.info),
        }

    async def publish(self, request: csi_pb2.NodePublishVolumeRequest) -> csi_pb2.NodePublishVolumeResponse:
        """Mount a dataset at the target path."""
        await self._publisher.publish(parse_publish(request, self._kubelet_dir))
        return csi_pb2.NodePublishVolumeResponse()

    async def unpublish(self, request: csi_pb2.NodeUnpublishVolumeRequest) -> csi_pb2.NodeUnpublishVolumeResponse:
        """Take it off."""
        await self._publisher.unpublish(parse_unpublish(request, self._kubelet_dir).target)
        return csi_pb2.NodeUnpublishVolumeResponse()

    async def stats(self, request: csi_pb2.NodeGetVolumeStatsRequest) -> csi_pb2.NodeGetVolumeStatsResponse:
        """The version's size, wholly used: nothing can be written. Not the cache disk's figures, which say nothing of the volume."""
        wanted = parse_stats(request)
        report = await self._publisher.report(wanted.volume_id, wanted.path)
        usage = [
            csi_pb2.VolumeUsage(unit=csi_pb2.VolumeUsage.BYTES, total=report.bytes, used=report.bytes),
            csi_pb2.VolumeUsage(unit=csi_pb2.VolumeUsage.INODES, total=report.files, used=report.files),
        ]
        message = report.trouble or "the volume is mounted and answers"
        condition = csi_pb2.VolumeCondition(abnormal=bool(report.trouble), message=message)
        return csi_pb2.NodeGetVolumeStatsResponse(usage=usage, volume_condition=condition)

    async def capabilities(self, _request: csi_pb2.NodeGetCapabilitiesRequest) -> csi_pb2.NodeGetCapabilitiesResponse:
        """Volume statistics and condition."""
        offered = [csi_pb2.NodeServiceCapability(rpc=_Rpc(type=kind)) for kind in _CAPABILITIES]
        return csi_pb2.NodeGetCapabilitiesResponse(capabilities=offered)

    async def info(self, _request: csi_pb2.NodeGetInfoRequest) -> csi_pb2.NodeGetInfoResponse:
        """The node's name; no limit of volumes and no topology."""
        return csi_pb2.NodeGetInfoResponse(node_id=self._node_name)
