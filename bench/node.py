"""A node without a cluster: a complete sidecar, its API server, and the pod volumes that a kubelet requests."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc

from bench.apistub import LOOPBACK, NODE, ApiStub
from bench.errors import BenchError
from bench.measure import wait_until
from bench.network import Host
from bench.server import BUCKET, REGION, S3Server
from bench.sidecar import Sidecar, Switches
from e2e.cluster.errors import NotReadyError
from stoker_api import names
from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.profiles.tuning import NodeTuning
from stoker_operator.webhook.peer_authority import PeerSigner
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.fuse.operations import XATTR_REQUESTS
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.version.listing import read_listing
from stoker_sidecar.wire.config.folders import SOCKET_NAME

_SECRET = "keys"
_START_SECONDS = 60.0
_LIST_SECONDS = 300.0
_CALL_SECONDS = 120.0
WARM_SECONDS = 900.0
_PEER_PORT = 8082


@dataclass(frozen=True)
class NetworkPlace:
    """The place of a node in a network: its ``host``, and the ``api_address`` at which it reaches this process.

    ``signer`` signs the certificates with which the nodes of the network authenticate.
    """

    host: Host
    api_address: str
    signer: PeerSigner


@dataclass(frozen=True)
class FiguresPort:
    """The address where a node serves figures of its pods. ``signer`` signs the certificates of nodes and callers."""

    port: int
    signer: PeerSigner


@dataclass(frozen=True)
class Volume:
    """A dataset version that the node knows: its location and its IDs."""

    uid: str
    digest: str
    paths: VersionPaths


class Node:
    """A node without a cluster, as a context manager: its sidecar, its API server, its pods' volumes.

    ``folder`` is on the cache disk, has a short name, and is removed. Without ``place``, the node has no peers and uses
    the network of this process. Without ``figures``, it serves no figures of its pods.
    """

    def __init__(
        self,
        folder: Path,
        server: S3Server,
        *,
        endpoint: str = "",
        switches: Switches | None = None,
        place: NetworkPlace | None = None,
        figures: FiguresPort | None = None,
    ) -> None:
        self._folder = folder
        self._figures = figures
        self._endpoint = endpoint or server.endpoint
        self._stack = ExitStack()
        self._place = place
        keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        address, signer = (place.api_address, place.signer) if place is not None else (LOOPBACK, None)
        signer = figures.signer if figures is not None else signer
        self._api = ApiStub(keys, address=address, signer=signer)
        self._cache = CachePaths(folder / "cache")
        self._desired: dict[str, dict[str, Any]] = {}
        self._counted = 0
        within = place.host.command if place is not None else ()
        self.sidecar = Sidecar(folder, self._agent_options(), switches or Switches(), self._api.environment, within)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._api)
            self._folder.mkdir(parents=True)
            self._api.write_service_account(self._account)
            stack.enter_context(self.sidecar)
            self._wait("the agent to report modes", lambda: bool(self._api.status.get("modes")), _START_SECONDS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _account(self) -> Path:
        return self._folder / "account"

    def _agent_options(self) -> list[str]:
        places = {"kubelet-dir": "kubelet", "cache-root": "cache", "mount-root": "mnt", "state-dir": "state"}
        folders = [f"--{name}={self._folder / place}" for name, place in (places | {"run-dir": "run"}).items()]
        return [
            f"--node-name={NODE}",
            f"--pod-ip={self._place.host.address if self._place is not None else LOOPBACK}",
            *([f"--namespace={NODE}", f"--peer-port={_PEER_PORT}"] if self._place is not None else []),
            *([f"--peer-port={self._figures.port}"] if self._figures is not None else []),
            f"--service-account={self._account}",
            "--http-port=0",
            "--learning-port=0",
            *folders,
        ]

    @property
    def peer(self) -> str:
        """The host:port where peers reach it."""
        assert self._place is not None, "in a network"
        return f"{self._place.host.address}:{_PEER_PORT}"

    def list_source(self, prefix: str, uid: str = "") -> Volume:
        """List the objects below ``prefix`` as a new dataset without fetching any. Raises BenchError.

        Peers identify the dataset by ``uid``.
        """
        uid = uid or f"bench-{self._next()}"
        credentials = {"secretRef": {"name": _SECRET}}
        source = {"uri": f"s3://{BUCKET}/{prefix}/", "endpoint": self._endpoint, "region": REGION}
        self._desired[uid] = {"source": Source.model_validate(source | {"credentials": credentials})}
        self._plan(uid, listing_id="1")
        paths = self._cache.dataset(uid)
        self._wait(f"the listing of {prefix}", lambda: read_listing(paths) is not None, _LIST_SECONDS, uid)
        result = read_listing(paths)
        if result is None or not result.version:
            raise BenchError(f"the source below {prefix} could not be listed: {result}")
        return Volume(uid, result.version, paths.version(result.version))

    def offer(
        self,
        volume: Volume,
        *,
        eager: bool = False,
        quota: int | None = None,
        tuning: NodeTuning | None = None,
        sharing: Mapping[str, object] | None = None,
    ) -> None:
        """Add the version to the plan, as the operator does. Eager fetches all files, otherwise reads fetch files.

        ``quota`` is in bytes. ``tuning`` has the node's tuning rules; None uses the built-in ones. ``sharing`` lists
        the other nodes that warm the dataset.
        """
        told = tuning or NodeTuning()
        fields: dict[str, Any] = {"quota_bytes": quota, "tuning": told, **(sharing or {})}
        self._plan(volume.uid, version=volume.digest, eager=eager, **fields)

    def warm(self, volume: Volume) -> None:
        """Fetch everything and wait until the version is complete. Raises BenchError with the node's message."""
        self.offer(volume, eager=True)
        self.wait_warm(volume)

    def wait_warm(self, volume: Volume) -> None:
        """Wait until the version is complete. Raises BenchError with the node's message."""
        self._wait("a version to be complete", volume.paths.complete.exists, WARM_SECONDS, volume.uid)

    def remove(self, volume: Volume) -> None:
        """Remove a dataset from the disk. Wait until its last file is deleted."""
        del self._desired[volume.uid]
        self._send()
        trash, folder = self._cache.trash, self._cache.dataset(volume.uid).folder
        wait_until("the cache disk to be clean", lambda: not folder.exists() and not any(trash.glob("*")), WARM_SECONDS)

    def publish(self, volume: Volume, sampling: str = "") -> Path:
        """Mount it as an inline volume of a pod, as the kubelet does. Return the pod's path.

        ``sampling`` is the pod's read order. Raises BenchError.
        """
        pod = f"pod-{self._next()}"
        target = self._folder / "kubelet" / "pods" / pod / "volumes" / "mount"
        context = {names.CSI_POD_NAMESPACE: "bench", names.CSI_POD_NAME: pod, names.CSI_POD_UID: pod}
        context |= {names.CSI_EPHEMERAL: "true", names.CSI_ATTRIBUTE_DATASET: volume.uid}
        context |= {names.CSI_ATTRIBUTE_SAMPLING: sampling} if sampling else {}
        mode = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
        capability = {"mount": {}, "access_mode": {"mode": mode}}
        request = csi_pb2.NodePublishVolumeRequest(
            volume_id=pod, target_path=str(target), volume_capability=capability, volume_context=context, readonly=True
        )
        self._call("NodePublishVolume", request, csi_pb2.NodePublishVolumeResponse)
        return target

    def publish_report(self, target: Path) -> Path:
        """Publish the report socket of a volume's pod, as the webhook and the kubelet do. Return the socket."""
        pod = target.parent.parent.name
        folder = target.parent / "report"
        context = {names.CSI_POD_NAMESPACE: "bench", names.CSI_POD_NAME: pod, names.CSI_POD_UID: pod}
        context |= {names.CSI_EPHEMERAL: "true", names.CSI_ATTRIBUTE_REPORT: "true"}
        mode = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
        request = csi_pb2.NodePublishVolumeRequest(
            volume_id=f"{pod}-report",
            target_path=str(folder),
            volume_capability={"mount": {}, "access_mode": {"mode": mode}},
            volume_context=context,
            readonly=True,
        )
        self._call("NodePublishVolume", request, csi_pb2.NodePublishVolumeResponse)
        return folder / SOCKET_NAME

    def node_cache(self) -> dict[str, Any]:
        """Return the node's NodeCache."""
        return self._api.node_cache()

    def unpublish(self, target: Path) -> None:
        """Unpublish a pod's volume. Raises BenchError."""
        pod = target.parent.parent.name
        request = csi_pb2.NodeUnpublishVolumeRequest(volume_id=pod, target_path=str(target))
        self._call("NodeUnpublishVolume", request, csi_pb2.NodeUnpublishVolumeResponse)

    def status(self, uid: str) -> dict[str, Any]:
        """Return the NodeCache's status of a dataset. Empty if there is none so far."""
        rows = (row for row in self._api.status.get("datasets", []) if row["uid"] == uid)
        return next(rows, {})

    def workloads(self) -> list[dict[str, Any]]:
        """Return the NodeCache's status of pods."""
        rows: list[dict[str, Any]] = self._api.status.get("workloads", [])
        return rows

    def overlays(self) -> bool:
        """Return True if this node can mount overlays, according to its NodeCache."""
        return MountMode.OVERLAY.value in self._api.status["modes"]

    def wait_mode(self, target: Path, wanted: MountMode, seconds: float = _LIST_SECONDS) -> None:
        """Wait until a pod's volume has this kind of mount. Raises BenchError."""
        self._wait(f"{target} to be mounted as {wanted}", lambda: mode(target) == wanted, seconds)

    def layer(self, volume: Volume, kind: MountMode) -> Path | None:
        """Return the node's own overlay or FUSE mount of this version, or None."""
        for mount in mountinfo.below(mountinfo.read(), str(self.sidecar.mount_root)):
            if volume.digest in mount.target and _kind(mount.fs_type) == kind:
                return Path(mount.target)
        return None

    def _plan(self, uid: str, **changes: Any) -> None:
        desired = self._desired[uid] | changes
        self._desired[uid] = desired
        self._send()

    def _send(self) -> None:
        rows = ({"namespace": "bench", "name": uid, "uid": uid} | desired for uid, desired in self._desired.items())
        self._api.plan(*(NodeDataset.model_validate(row).wire() for row in rows))

    def _next(self) -> int:
        self._counted += 1
        return self._counted

    def _wait(self, what: str, condition: Callable[[], bool], seconds: float, uid: str = "") -> None:
        try:
            wait_until(what, condition, seconds)
        except NotReadyError as error:
            said = json.dumps(self.status(uid)) if uid else "\n".join(self.sidecar.log().splitlines()[-5:])
            raise BenchError(f"{error}; the node says {said}") from error

    def _call(self, name: str, request: Any, reply: Any) -> None:
        socket = self._folder / "kubelet" / "plugins" / names.CSI_DRIVER / "csi.sock"
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            ask = channel.unary_unary(
                f"/csi.v1.Node/{name}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=reply.FromString,
            )
            try:
                ask(request, timeout=_CALL_SECONDS, wait_for_ready=True)
            except grpc.RpcError as error:
                raise BenchError(f"{name} failed: {error}") from error


def mode(target: Path) -> MountMode | None:
    """Return the current mount type of a path, or None."""
    layers = mountinfo.layers(mountinfo.read(), str(target))
    return _kind(layers[-1].fs_type) if layers else None


def _kind(fs_type: str) -> MountMode:
    if fs_type == "overlay":
        return MountMode.OVERLAY
    return MountMode.FUSE if fs_type.startswith("fuse") else MountMode.NATIVE


def fuse_requests(mountpoint: Path) -> dict[str, int]:
    """Return the requests received by the server of a FUSE mount, by operation."""
    counts: dict[str, int] = json.loads(os.getxattr(mountpoint, XATTR_REQUESTS.decode()))
    return counts
