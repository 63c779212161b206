"""How a pod reads its Datasets: from the pod and what its node says of its mounts; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker_api import names
from stoker_api.dataset import MountMode
from stoker_api.inline_volume import is_report_volume
from stoker_api.node_storage import MountPhase, NodeMount

Object = Mapping[str, Any]

_WORDS = {
    MountMode.NATIVE: "as plain files of the node (native)",
    MountMode.OVERLAY: "cached files from the kernel, missing ones through FUSE (overlay)",
    MountMode.FUSE: "through FUSE (fuse)",
}
_PROPAGATION = "HostToContainer"


def sentences(pod: Object, mounts: Sequence[NodeMount]) -> tuple[str, ...]:
    """Write one for each volume of the pod, and one for each container that a faster mount does not reach by itself."""
    own = [mount for mount in mounts if mount.pod_uid == pod["metadata"].get("uid")]
    return tuple(sentence for mount in own for sentence in (_how(mount), *_unreached(pod, mount)))


def _how(mount: NodeMount) -> str:
    name = f"{mount.dataset_namespace}/{mount.dataset}"
    if mount.phase is MountPhase.PENDING or mount.mode is None:
        return f"The Dataset {name} is not mounted yet: `kubectl describe pod` has the node's reason."
    return f"It reads the Dataset {name} {_WORDS[mount.mode]}."


def _unreached(pod: Object, mount: NodeMount) -> Iterator[str]:
    volumes = {volume["name"] for volume in pod["spec"].get("volumes") or () if _shows(volume, mount, pod)}
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        for at in container.get("volumeMounts") or ():
            if at["name"] in volumes and at.get("mountPropagation") != _PROPAGATION:
                yield (
                    f"Its container {container['name']!r} mounts it at {at['mountPath']} without mountPropagation: "
                    f"{_PROPAGATION}, so there it stays on the mount that the container began with, unless the chart's "
                    "value sidecar.hostPID is true."
                )


def _shows(volume: Object, mount: NodeMount, pod: Object) -> bool:
    """Tell whether the pod's volume is that mount: an inline volume of the driver, or the Dataset's claim."""
    wanted = (mount.dataset_namespace, mount.dataset)
    own = pod["metadata"]["namespace"]
    csi = volume.get("csi") or {}
    if csi.get("driver") == names.CSI_DRIVER:
        attributes = csi.get("volumeAttributes") or {}
        place = attributes.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or own
        return (place, attributes.get(names.CSI_ATTRIBUTE_DATASET)) == wanted and not is_report_volume(volume)
    return (own, (volume.get("persistentVolumeClaim") or {}).get("claimName")) == wanted
