"""The PersistentVolume and PersistentVolumeClaim with which a pod mounts a Dataset as an ordinary claim."""

import hashlib
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset

# Nominal: Kubernetes requires a size but does not enforce it, and a claim's size cannot follow a Dataset's.
NOMINAL_CAPACITY = "1Gi"
_MAX_NAME = 253  # of a Kubernetes object
_HASH_LENGTH = 10
ACCESS_MODES = ["ReadOnlyMany"]


def persistent_volume_name(namespace: str, name: str) -> str:
    """Name the volume ``stoker-<namespace>-<name>``, with a hash if that is too long or ambiguous."""
    plain = f"stoker-{namespace}-{name}"
    # "a-b"/"c" and "a"/"b-c" would collide: a dash in the namespace makes the name ambiguous.
    if len(plain) <= _MAX_NAME and "-" not in namespace:
        return plain
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: _MAX_NAME - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"


def labels_for(dataset: Dataset) -> dict[str, str]:
    """Return labels by which the operator finds its objects.

    Values that are too long for a label are hashed.
    """
    return {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_DATASET: _label_value(dataset.metadata.name),
        names.LABEL_DATASET_NAMESPACE: _label_value(dataset.metadata.namespace),
    }


def _label_value(text: str) -> str:
    return text if len(text) <= 63 else hashlib.sha256(text.encode()).hexdigest()[:40]


def persistent_volume(dataset: Dataset) -> dict[str, Any]:
    """Build the volume, reserved for the Dataset's own claim."""
    namespace, name = dataset.metadata.namespace, dataset.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": persistent_volume_name(namespace, name), "labels": labels_for(dataset)},
        "spec": {
            "capacity": {"storage": NOMINAL_CAPACITY},
            "accessModes": ACCESS_MODES,
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            "csi": {
                "driver": names.CSI_DRIVER,
                "volumeHandle": f"{namespace}/{name}",
                "readOnly": True,
                "volumeAttributes": {
                    names.CSI_ATTRIBUTE_DATASET: name,
                    names.CSI_ATTRIBUTE_DATASET_NAMESPACE: namespace,
                },
            },
        },
    }


def persistent_volume_claim(dataset: Dataset) -> dict[str, Any]:
    """Build the claim. It has the Dataset's name and is deleted with it."""
    namespace, name = dataset.metadata.namespace, dataset.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels_for(dataset),
            "ownerReferences": [owner_reference(dataset)],
        },
        "spec": {
            "accessModes": ACCESS_MODES,
            "storageClassName": "",
            "volumeName": persistent_volume_name(namespace, name),
            "resources": {"requests": {"storage": NOMINAL_CAPACITY}},
        },
    }


def owner_reference(dataset: Dataset) -> dict[str, Any]:
    """Return the owner reference with which Kubernetes deletes an object together with its Dataset."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": Dataset.KIND,
        "name": dataset.metadata.name,
        "uid": dataset.metadata.uid,
        "controller": True,
    }


def is_ours(raw: dict[str, Any]) -> bool:
    """Return True if Stoker made this object for a Dataset."""
    labels = raw["metadata"].get("labels") or {}
    return labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY and names.LABEL_DATASET in labels
