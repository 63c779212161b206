"""How a pod reads its Datasets, from the pod and the mounts in its NodeCache. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import MountMode
from stoker_api.jobs.pod_hints import is_report_volume
from stoker_api.node_caches.node_storage import MountPhase, NodeMount

Object = Mapping[str, Any]

_WORDS = {
    MountMode.NATIVE: "as files on the node's disk (native)",
    MountMode.OVERLAY: "cached files from the node's disk, missing files through FUSE (overlay)",
    MountMode.FUSE: "through FUSE (fuse)",
}
_PROPAGATION = "HostToContainer"


def sentences(pod: Object, mounts: Sequence[NodeMount]) -> tuple[str, ...]:
    """Return a sentence for each volume, and for each container that cannot switch to a faster mount."""
    own = [mount for mount in mounts if mount.pod_uid == pod["metadata"].get("uid")]
    return tuple(sentence for mount in own for sentence in (_how(mount), *_mapped(pod, mount), *_unreached(pod, mount)))


def finished_sentences(pod: Object) -> tuple[str, ...]:
    """Return a sentence about each inline volume of a pod that has ended, whose mounts are gone."""
    own = pod["metadata"]["namespace"]
    volumes = [volume for volume in pod["spec"].get("volumes") or () if not is_report_volume(volume)]
    attributes = [(volume.get("csi") or {}).get("volumeAttributes") or {} for volume in volumes]
    return tuple(
        f"It read version {version[:12]} of the Dataset {one.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or own}/{name}."
        for one in attributes
        if (version := one.get(names.CSI_ATTRIBUTE_VERSION)) and (name := one.get(names.CSI_ATTRIBUTE_DATASET))
    )


def _how(mount: NodeMount) -> str:
    name = f"{mount.dataset_namespace}/{mount.dataset}"
    if mount.phase is MountPhase.PENDING or mount.mode is None:
        return f"The Dataset {name} is not mounted yet. `kubectl describe pod` shows the reason."
    return f"It reads the Dataset {name} {_WORDS[mount.mode]}."


def _mapped(pod: Object, mount: NodeMount) -> Iterator[str]:
    if pod["spec"].get("hostUsers") is False and mount.mode is MountMode.FUSE:
        yield (
            "The pod has hostUsers: false, and the kernel maps no users of overlays, so the volume stays on FUSE"
            " until it can be a bind mount (complete data, annotated pod)."
        )


def _unreached(pod: Object, mount: NodeMount) -> Iterator[str]:
    volumes = {volume["name"] for volume in pod["spec"].get("volumes") or () if _shows(volume, mount, pod)}
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        for at in container.get("volumeMounts") or ():
            where = f"Its container {container['name']!r} mounts it at {at['mountPath']}"
            if at["name"] not in volumes:
                continue
            if at.get("subPath") or at.get("subPathExpr"):
                if mount.mode is not MountMode.NATIVE:  # the node handles subPath of native mounts
                    yield (
                        f"{where} with subPath, so it gets a faster mount only after a restart. "
                        "Remove subPath, or set the chart value sidecar.hostPID to true."
                    )
            elif at.get("mountPropagation") != _PROPAGATION:
                yield (
                    f"{where} without mountPropagation: {_PROPAGATION}, so it gets a faster mount only after a "
                    "restart, unless the chart value sidecar.hostPID is true."
                )


def _shows(volume: Object, mount: NodeMount, pod: Object) -> bool:
    """Return True if the volume is this mount: an inline volume, or the claim of the Dataset."""
    wanted = (mount.dataset_namespace, mount.dataset)
    own = pod["metadata"]["namespace"]
    csi = volume.get("csi") or {}
    if csi.get("driver") == names.CSI_DRIVER:
        attributes = csi.get("volumeAttributes") or {}
        place = attributes.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or own
        return (place, attributes.get(names.CSI_ATTRIBUTE_DATASET)) == wanted and not is_report_volume(volume)
    return (own, (volume.get("persistentVolumeClaim") or {}).get("claimName")) == wanted
