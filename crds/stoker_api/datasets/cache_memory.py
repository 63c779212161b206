"""A Dataset's part of a node's memory: the request, the class limit, and the node's report."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model, Quantity, ShortMessage

_INT64 = {"format": "int64"}


class CacheMemory(Model):
    """The part of it that each node keeps in memory while a pod mounts it, within the node's limit."""

    names: Annotated[
        bool,
        Field(description="Keep names and attributes of its files, about 1.3 kB of memory each, for native mounts."),
    ] = False
    bytes: Annotated[
        Quantity | None,
        Field(description="Bytes of contents to keep, in the order of warm.paths. Absent or 0: none."),
    ] = None


class MemoryLimits(Model):
    """A Dataset's limit on memory of a node."""

    names: Annotated[bool, Field(description="Whether cache.memory.names takes effect.")] = False
    pages: Annotated[bool, Field(description="Whether warm.pages takes effect.")] = True
    bytes: Annotated[
        Quantity | None,
        Field(description="Maximum of cache.memory.bytes; larger values are reduced to it. Absent or 0: none."),
    ] = None


class WarmedPages(Model):
    """Progress of a node in reading warm files into its page cache, for `warm.pages`."""

    request: Annotated[ShortMessage, Field(description="The request that this answers.")] = ""
    bytes: Annotated[int, Field(json_schema_extra=_INT64, description="Requested bytes on the disk.")] = 0
    read_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Bytes for which the node's memory had room.")
    ] = 0
    done: bool = False


class PinnedMemory(Model):
    """The part of a Dataset that a node keeps in memory. Bytes and numbers of files."""

    wanted_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Bytes of cache.memory.bytes on its disk.")
    ] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64, description="Kept in memory.")] = 0
    locked_bytes: Annotated[
        int,
        Field(
            json_schema_extra=_INT64,
            description="Part of bytes that the kernel cannot evict; the node watches the rest.",
        ),
    ] = 0
    wanted_names: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    names: Annotated[int, Field(json_schema_extra=_INT64, description="Kept in memory.")] = 0
    message: Annotated[ShortMessage, Field(description="Why it is less than requested. Empty: it is not.")] = ""


class NodeMemory(Model):
    """A node's memory for pinned files of all its Datasets. Bytes."""

    allowed_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Limit from the chart's value sidecar.memory.pinned.")
    ] = 0
    room_bytes: Annotated[
        int,
        Field(json_schema_extra=_INT64, description="Part of allowedBytes for which the node's memory last had room."),
    ] = 0
    pinned_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Memory in use, for names and contents.")
    ] = 0
