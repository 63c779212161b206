"""What of a Dataset stays in a node's memory: asked for, allowed by its class, and told by the node."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model, Quantity, ShortMessage

_INT64 = {"format": "int64"}


class CacheMemory(Model):
    """What stays in the memory of each node while a pod there has it mounted, as far as the node allows."""

    names: Annotated[
        bool, Field(description="Names and attributes of its files, about 1.3 kB of memory each; of native mounts.")
    ] = False
    bytes: Annotated[
        Quantity | None,
        Field(description="Contents: so many bytes of it, what warm.paths names first. Absent or 0: none."),
    ] = None


class MemoryLimits(Model):
    """How much memory of a node one Dataset may ask for."""

    names: Annotated[bool, Field(description="Whether cache.memory.names is followed.")] = False
    pages: Annotated[bool, Field(description="Whether warm.pages is followed.")] = True
    bytes: Annotated[
        Quantity | None,
        Field(description="The most cache.memory.bytes; more is taken as this. Absent or 0: none."),
    ] = None


class WarmedPages(Model):
    """How far a node is with bringing what is warm into its page cache, as `warm.pages` asks."""

    request: Annotated[str, Field(description="Of which request this is.")] = ""
    bytes: Annotated[int, Field(json_schema_extra=_INT64, description="What of it is on the disk.")] = 0
    read_bytes: Annotated[int, Field(json_schema_extra=_INT64, description="What the node's memory had room for.")] = 0
    done: bool = False


class PinnedMemory(Model):
    """What of a Dataset a node keeps in memory. Bytes and numbers of files."""

    wanted_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="What of cache.memory.bytes is on its disk.")
    ] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64, description="Kept in memory.")] = 0
    locked_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Of these, what the kernel may not take; the rest is watched.")
    ] = 0
    wanted_names: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    names: Annotated[int, Field(json_schema_extra=_INT64, description="Kept in memory.")] = 0
    message: Annotated[ShortMessage, Field(description="Why it is less than was asked for; empty: it is not.")] = ""


class NodeMemory(Model):
    """What of a node's memory its Datasets may have together, and have. Bytes."""

    allowed_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="By the chart's value sidecar.memory.pinned.")
    ] = 0
    room_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Of these, what the node's memory had room for last.")
    ] = 0
    pinned_bytes: Annotated[int, Field(json_schema_extra=_INT64, description="Taken, names and contents.")] = 0
