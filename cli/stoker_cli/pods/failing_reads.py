"""Failing reads of a pod and their cause, from the NodeCache or the Datasets. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.node_storage import MountPhase
from stoker_api.node_caches.nodecache import NodeCache

Object = Mapping[str, Any]
_READS = "reads of pods "  # prefix in lastError of a node in the status of a Dataset


def named_datasets(pod: Object) -> list[tuple[str, str]]:
    """Return namespace and name of each Dataset in the annotation, volumes and claims of a pod."""
    own = pod["metadata"]["namespace"]
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_DATASETS, "")
    keys = (piece.partition(":")[0].partition("@")[0].strip() for piece in text.split(","))
    datasets = dict.fromkeys((home or own, name) for home, _, name in (key.rpartition("/") for key in keys if key))
    for volume in pod["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        csi = volume.get("csi") or {}
        attributes = csi.get("volumeAttributes") or {} if csi.get("driver") == names.CSI_DRIVER else {}
        name = attributes.get(names.CSI_ATTRIBUTE_DATASET) or claim
        if name:
            datasets[attributes.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or own, name] = None
    return list(datasets)


def sentences(pod: Object, cache: NodeCache | None, datasets: Iterable[Dataset] = ()) -> tuple[str, ...]:
    """Return a sentence for each Dataset whose reads fail on the node of the pod.

    ``cache``: the NodeCache of the node. Without it, the rows in ``datasets`` are used.
    """
    return tuple(_by_node(pod, cache) if cache is not None else _by_datasets(pod, datasets))


def _by_node(pod: Object, cache: NodeCache) -> Iterator[str]:
    own = [mount for mount in cache.status.mounts if mount.pod_uid == pod["metadata"].get("uid")]
    mounted = {
        (mount.dataset_namespace, mount.dataset, mount.version) for mount in own if mount.phase is MountPhase.MOUNTED
    }
    for row in cache.status.datasets:
        reads = row.failing_reads
        if reads is not None and (row.namespace, row.name, reads.version) in mounted:
            yield reads.sentence(f"Its reads of the Dataset {row.namespace}/{row.name}")


def _by_datasets(pod: Object, datasets: Iterable[Dataset]) -> Iterator[str]:
    node = pod["spec"].get("nodeName")
    for dataset in datasets:
        for row in dataset.status.nodes:
            if row.name == node and row.last_error.startswith(_READS):
                yield f"Its node's reads of the Dataset {dataset.key} {row.last_error.removeprefix(_READS)}"
