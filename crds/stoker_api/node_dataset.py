"""What a node is told of one Dataset: a row of its NodeCache's spec."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from stoker_api.dataset import ObservePolicy
from stoker_api.dataset_source import DatasetSource, Source
from stoker_api.meta import Model, ShortMessage
from stoker_api.tuning import NodeTuning

_INT64 = {"format": "int64"}
# Of what several groups of nodes divide.
EVERYTHING = 2**32
_ATOMIC = {"x-kubernetes-list-type": "atomic"}  # one writer writes each list whole: see nodecache


def _plain(source: object) -> object:
    return source.plain() if isinstance(source, DatasetSource) else source


class OlderVersion(Model):
    """A version that is not the current one, and that pods on their way to this node will mount."""

    version: Annotated[str, Field(description="Its digest.")]
    manifest_hosts: Annotated[tuple[str, ...], Field(description="host:port of nodes that have its manifest.")] = ()


class NeighbourGroups(Model):
    """What a node has to do with other groups of nodes (docs/adr/0093), and which are near (docs/adr/0096).

    A field of its own keeps a row's below 30.
    """

    links: Annotated[
        tuple[str, ...],
        Field(
            description="host:port of nodes of other groups: they may be asked for files, and may ask.", max_length=12
        ),
    ] = ()
    distances: Annotated[
        tuple[Annotated[int, Field(ge=0, le=2)], ...],
        Field(
            description="How far away `peers` and then `links` are, in that order: 0: in its rack, 1: in its zone, "
            "2: elsewhere. The nearest are asked first. Empty: all are alike.",
            max_length=23,
        ),
    ] = ()
    first: Annotated[
        int,
        Field(
            description="Where the part begins that this node's group fetches from the source: 2^32 are everything.",
            ge=0,
            le=EVERYTHING - 1,
            json_schema_extra=_INT64,
        ),
    ] = 0
    width: Annotated[int, Field(description="How much the part is.", ge=1, le=EVERYTHING, json_schema_extra=_INT64)] = (
        EVERYTHING
    )


Peers = Annotated[
    tuple[str, ...],
    Field(
        description="host:port of other nodes that are to have it too: they may be asked for files, and may ask.",
        max_length=15,
    ),
]
Position = Annotated[
    int, Field(description="Of this node among itself and `peers`, in one order for all of them.", ge=0, le=15)
]


class NodeDataset(Model):
    """One dataset that this node should serve.

    Absent from the list: the node cleans it from its disk once unmounted, unless it is to be kept.
    """

    namespace: str
    name: str
    uid: Annotated[str, Field(description="UID of the Dataset object: names the folder on disk.")]
    generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    source: Annotated[Source, BeforeValidator(_plain)]
    listing_id: Annotated[
        str, Field(description="Set on the one node that should list the source; a new value asks for a new listing.")
    ] = ""
    version: Annotated[str, Field(description="Digest of the version that new mounts get; empty until listed.")] = ""
    retain: Annotated[tuple[str, ...], Field(description="Older versions that must stay, since pods read them.")] = ()
    manifest_hosts: Annotated[
        tuple[str, ...],
        Field(description="host:port of nodes that have the manifest of `version`; empty on the node that listed."),
    ] = ()
    peers: Peers = ()
    position: Position = 0
    groups: Annotated[
        NeighbourGroups, Field(description="Of other groups of nodes that are to have it, where those are several.")
    ] = NeighbourGroups()
    older: Annotated[
        tuple[OlderVersion, ...],
        Field(description="Fetched beside `version`, and before it: pods on their way here will mount them."),
    ] = ()
    eager: Annotated[
        bool, Field(description="Fetch everything, or what `warmPaths` names; else only what is read.")
    ] = False
    warm_paths: Annotated[
        tuple[str, ...],
        Field(
            description="Folders, files and patterns that are fetched, in this order; empty: all. One that begins with "
            "a slash, alone, is a file of the version whose lines these are (`warm.list`).",
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    priority: int = 0
    warm_by: Annotated[
        str | None,
        Field(
            description="When it is to be warm; of one priority the first goes first.",
            json_schema_extra={"format": "date-time"},
        ),
    ] = None
    paused: bool = False
    bytes_per_second: Annotated[int | None, Field(json_schema_extra=_INT64, description="Limit for warming.")] = None
    quota_bytes: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    pinned: bool = False
    pages: Annotated[
        str, Field(description="Of which request what is warmed is brought into the page cache; empty: it is not.")
    ] = ""
    memory_names: Annotated[bool, Field(description="Names stay in memory while it is mounted.")] = False
    memory_bytes: Annotated[
        int | None, Field(json_schema_extra=_INT64, description="Contents that stay in memory while it is mounted.")
    ] = None
    allowed_namespaces: Annotated[
        tuple[str, ...], Field(description="Patterns of namespaces whose pods may mount it, beside its own.")
    ] = ()
    anonymous: Annotated[
        bool, Field(description="Without credentials of its own it may not use the node's, whatever the chart grants.")
    ] = False
    observe: Annotated[ObservePolicy, Field(description="Off: nobody looks at what pods read of it.")] = (
        ObservePolicy.AUTO
    )
    tuning: Annotated[NodeTuning, Field(description="What applies to it of tuning.")] = NodeTuning()
    refused: Annotated[
        ShortMessage, Field(description="Why no new mount is made, in a sentence; what is mounted goes on.")
    ] = ""

    @property
    def links(self) -> tuple[str, ...]:
        """Nodes of other groups that are asked, and may ask, by host:port."""
        return self.groups.links
