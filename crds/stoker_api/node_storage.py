"""What a NodeCache says of a node's mounts and cache folders."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from stoker_api.dataset import MountMode
from stoker_api.meta import Model, ShortMessage

_INT64 = {"format": "int64"}
MOST_MOUNTS = 500  # of one NodeCache: 200 KB, and twice as many as the pods of a large node


class MountPhase(StrEnum):
    """A pod's volume on this node."""

    PENDING = "Pending"  # the kubelet asks; the node waits for the operator's plan or for a manifest
    MOUNTED = "Mounted"


class NodeMount(Model):
    """One published volume, or one that waits for the plan.

    This is also how a node asks for a dataset it was not given.
    """

    volume_id: str
    dataset_namespace: str
    dataset: str
    version: str = ""
    pod_namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    phase: MountPhase = MountPhase.PENDING
    mode: MountMode | None = None


class Medium(StrEnum):
    """What a cache folder lies on."""

    DISK = "Disk"
    MEMORY = "Memory"


class CacheFolder(Model):
    """One of the node's cache folders. Bytes everywhere."""

    path: str
    medium: Medium = Medium.DISK
    capacity_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    used_bytes: Annotated[int, Field(json_schema_extra=_INT64, description="What datasets keep in it.")] = 0
    available_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="What they may still take: free space less the floor.")
    ] = 0
    healthy: Annotated[bool, Field(description="False: out of service; its datasets start anew in another folder.")] = (
        True
    )
    message: Annotated[ShortMessage, Field(description="Why it is out of service.")] = ""
