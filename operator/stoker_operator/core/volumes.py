"""The PersistentVolume and PersistentVolumeClaim that let a pod name a Dataset as an ordinary claim."""

import hashlib
from typing import Any

from stoker_api import names
from stoker_api.dataset import Dataset

# Nominal: Kubernetes wants a size, nothing enforces it, and a claim's size cannot follow a dataset's.
NOMINAL_CAPACITY = "1Gi"
_MAX_NAME = 253  # of a Kubernetes object
_HASH_LENGTH = 10
ACCESS_MODES = ["ReadOnlyMany"]


def persistent_volume_name(namespace: str, name: str) -> str:
    """Name the volume ``stoker-<namespace>-<name>``, with a hash where that is too long or not unique."""
    plain = f"stoker-{namespace}-{name}"
    # "a-b"/"c" and "a"/"b-c" would meet: a dash in the namespace makes the name ambiguous.
    if len(plain) <= _MAX_NAME and "-" not in namespace:
        return plain
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: _MAX_NAME - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"


def labels_for(dataset: Dataset) -> dict[str, str]:
    """Return labels by which the operator finds what it made.

    Values are hashed where a label could not hold the name.
    """
    return {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_DATASET: _label_value(dataset.metadata.name),
        names.LABEL_DATASET_NAMESPACE: _label_value(dataset.metadata.namespace),
    }


def _label_value(text: str) -> str:
    return text if len(text) <= 63 else hashlib.sha256(text.encode()).hexdigest()[:40]


def persistent_volume(dataset: Dataset) -> dict[str, Any]:
    """Make the volume, reserved for the Dataset's own claim."""
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
    """Make the claim, named like the Dataset and gone with it."""
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
    """Make an object go with its Dataset."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": Dataset.KIND,
        "name": dataset.metadata.name,
        "uid": dataset.metadata.uid,
        "controller": True,
    }


def is_ours(raw: dict[str, Any]) -> bool:
    """Tell whether Stoker made this object for a Dataset."""
    labels = raw["metadata"].get("labels") or {}
    return labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY and names.LABEL_DATASET in labels
