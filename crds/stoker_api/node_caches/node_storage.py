"""A node's mounts and cache folders in its NodeCache."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from stoker_api.datasets.dataset import MountMode
from stoker_api.meta import DigestText, Model, NameText, ShortMessage

_INT64 = {"format": "int64"}
MOST_MOUNTS = 500  # of one NodeCache: 200 KB, and twice the number of pods of a large node
MOST_FOLDERS = 64


class MountPhase(StrEnum):
    """A pod's volume on this node."""

    PENDING = "Pending"  # the kubelet requested it; the node waits for the operator's plan or for a manifest
    MOUNTED = "Mounted"


class NodeMount(Model):
    """A published volume, or one that waits for the plan.

    A waiting row also requests a dataset that is not in the node's plan.
    """

    volume_id: Annotated[str, Field(max_length=1024)]
    dataset_namespace: NameText
    dataset: NameText
    version: DigestText = ""
    pod_namespace: NameText = ""
    pod: NameText = ""
    pod_uid: Annotated[str, Field(max_length=128)] = ""
    phase: MountPhase = MountPhase.PENDING
    mode: MountMode | None = None


class Medium(StrEnum):
    """The medium of a cache folder."""

    DISK = "Disk"
    MEMORY = "Memory"


class CacheFolder(Model):
    """One of the node's cache folders. Bytes everywhere."""

    path: Annotated[str, Field(max_length=4096)]
    medium: Medium = Medium.DISK
    capacity_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    used_bytes: Annotated[int, Field(json_schema_extra=_INT64, description="Bytes of datasets in it.")] = 0
    available_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Bytes left for datasets: free space less the floor.")
    ] = 0
    healthy: Annotated[
        bool, Field(description="False: out of service. Its datasets start again in another folder.")
    ] = True
    message: Annotated[ShortMessage, Field(description="Why it is out of service.")] = ""
