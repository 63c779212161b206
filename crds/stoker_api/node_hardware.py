"""What rules may ask of a node's machine."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model

_INT64 = {"format": "int64"}
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
MOST_DISKS = 16  # of status.hardware


class NodeDisk(Model):
    """What a cache folder lies on."""

    path: Annotated[str, Field(max_length=4096)]
    kind: Annotated[str, Field(description="NVMe, SSD, HDD, Memory; Unknown: not told by the kernel.", max_length=40)]


class NodeHardware(Model):
    """The machine, as its sidecar sees it; what is absent is not known."""

    memory_bytes: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    cpus: int | None = None
    gpus: Annotated[int | None, Field(description="GPUs and accelerators for training among its PCI devices.")] = None
    network_bytes_per_second: Annotated[
        int | None, Field(json_schema_extra=_INT64, description="Of the fastest interface that is up.")
    ] = None
    disks: Annotated[
        tuple[NodeDisk, ...],
        Field(description="What its cache folders lie on.", max_length=MOST_DISKS, json_schema_extra=_ATOMIC),
    ] = ()
