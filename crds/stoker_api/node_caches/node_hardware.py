"""A node's hardware, for rules."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model

_INT64 = {"format": "int64"}
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
MOST_DISKS = 16  # of status.hardware


class NodeDisk(Model):
    """The disk of a cache folder."""

    path: Annotated[str, Field(max_length=4096)]
    kind: Annotated[
        str, Field(description="NVMe, SSD, HDD, Memory, or Unknown if the kernel does not report it.", max_length=40)
    ]


class NodeHardware(Model):
    """The machine, as its sidecar sees it. Absent values are unknown."""

    memory_bytes: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    cpus: int | None = None
    gpus: Annotated[int | None, Field(description="GPUs and training accelerators among its PCI devices.")] = None
    network_bytes_per_second: Annotated[
        int | None, Field(json_schema_extra=_INT64, description="Speed of the fastest active interface.")
    ] = None
    disks: Annotated[
        tuple[NodeDisk, ...],
        Field(description="Disks of its cache folders.", max_length=MOST_DISKS, json_schema_extra=_ATOMIC),
    ] = ()
