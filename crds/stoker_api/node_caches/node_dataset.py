"""A node's plan for one Dataset: a row of its NodeCache's spec."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import force_setattr
from pydantic import BeforeValidator, Field

from stoker_api.datasets.dataset import ObservePolicy, PeerProof
from stoker_api.datasets.dataset_source import DatasetSource, Source
from stoker_api.meta import MOST_SHORT_MESSAGE, Model, ShortMessage, shortened
from stoker_api.profiles.tuning import NodeTuning
from stoker_api.rows import RowStruct

_INT64 = {"format": "int64"}
# The range that groups of nodes divide.
EVERYTHING = 2**32
_ATOMIC = {"x-kubernetes-list-type": "atomic"}  # one writer writes each list whole: see nodecache


def _plain(source: object) -> object:
    return source.plain() if isinstance(source, DatasetSource) else source


class OlderVersion(Model):
    """A version other than the current one that pods on their way to this node will mount."""

    version: Annotated[str, Field(description="Its digest.")]
    manifest_hosts: Annotated[tuple[str, ...], Field(description="host:port of nodes with its manifest.")] = ()


class PeerLinks(RowStruct, frozen=True, kw_only=True):
    """A node's relation to other groups of nodes, and the distances to its peers (docs/adr/0027).

    The rows of Datasets on the same nodes share one.
    """

    links: Annotated[
        tuple[str, ...],
        Field(
            description="host:port of nodes of other groups. This node and they may request files from each other.",
            max_length=12,
        ),
        Meta(max_length=12),
    ] = ()
    distances: Annotated[
        tuple[Annotated[int, Field(ge=0, le=2), Meta(ge=0, le=2)], ...],
        Field(
            description="Distances of `peers`, then of `links`. 0: same rack, 1: same zone, 2: elsewhere. The "
            "nearest peer gets requests first. Empty: all are equal.",
            max_length=23,
        ),
        Meta(max_length=23),
    ] = ()
    first: Annotated[
        int,
        Field(
            description="Start of the part that this node's group fetches from the source, within 2^32.",
            ge=0,
            le=EVERYTHING - 1,
            json_schema_extra=_INT64,
        ),
        Meta(ge=0, le=EVERYTHING - 1),
    ] = 0
    width: Annotated[
        int,
        Field(description="Size of the part, within 2^32.", ge=1, le=EVERYTHING, json_schema_extra=_INT64),
        Meta(ge=1, le=EVERYTHING),
    ] = EVERYTHING
    adopted: Annotated[
        bool,
        Field(
            description="True: found on the disk of a node with a new NodeCache. It stays, without credentials and "
            "peers, until the operator places the Dataset on the node."
        ),
    ] = False
    names: Annotated[
        tuple[Annotated[str, Field(max_length=253), Meta(max_length=253)], ...],
        Field(
            description="Node names of `peers`, then of `links`, as in their certificates.",
            max_length=27,
        ),
        Meta(max_length=27),
    ] = ()
    proof: Annotated[PeerProof, Field(description="The proof that bytes from these nodes need.")] = (
        PeerProof.CRYPTOGRAPHIC
    )


Peers = Annotated[
    tuple[str, ...],
    Field(
        description="host:port of other nodes that will hold it. This node and they may request files from each other.",
        max_length=15,
    ),
    Meta(max_length=15),
]
Position = Annotated[
    int,
    Field(description="Position of this node among itself and `peers`. All of them use the same order.", ge=0, le=15),
    Meta(ge=0, le=15),
]


class NodeDataset(RowStruct, frozen=True, kw_only=True):
    """One dataset that this node should serve.

    If it is absent from the list, the node removes it from its disk after unmounting, unless keep names it.
    """

    namespace: str
    name: str
    uid: Annotated[str, Field(description="UID of the Dataset object, which names the folder on disk.")]
    generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    source: Annotated[Source, BeforeValidator(_plain)]
    listing_id: Annotated[
        str, Field(description="Set on the one node that should list the source. A new value requests a new listing.")
    ] = ""
    version: Annotated[str, Field(description="Digest of the version for new mounts. Empty until listed.")] = ""
    retain: Annotated[tuple[str, ...], Field(description="Older versions to keep, because pods read them.")] = ()
    manifest_hosts: Annotated[
        tuple[str, ...],
        Field(description="host:port of nodes with the manifest of `version`. Empty on the node that listed."),
    ] = ()
    peers: Peers = ()
    position: Position = 0
    groups: Annotated[PeerLinks, Field(description="Other groups of nodes with the Dataset, if there are several.")] = (
        PeerLinks()
    )
    older: Annotated[
        tuple[OlderVersion, ...],
        Field(description="Fetched before `version`, because pods on their way here will mount them."),
    ] = ()
    eager: Annotated[
        bool, Field(description="Fetch everything, or the files of `warmPaths`. False: fetch files when they are read.")
    ] = False
    warm_paths: Annotated[
        tuple[str, ...],
        Field(
            description="Folders, files and patterns to fetch, in this order. Empty: all. A single path with a "
            "leading slash is a file of the version that contains the paths (`warm.list`).",
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    priority: int = 0
    warm_by: Annotated[
        str | None,
        Field(
            description="Time by which it must be warm. Within one priority, the earliest goes first.",
            json_schema_extra={"format": "date-time"},
        ),
    ] = None
    paused: bool = False
    bytes_per_second: Annotated[int | None, Field(json_schema_extra=_INT64, description="Limit for warming.")] = None
    quota_bytes: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    pinned: bool = False
    pages: Annotated[str, Field(description="The request for warming the page cache. Empty: none.")] = ""
    memory_names: Annotated[bool, Field(description="Keep names in memory while it is mounted.")] = False
    memory_bytes: Annotated[
        int | None,
        Field(json_schema_extra=_INT64, description="Bytes of contents to keep in memory while it is mounted."),
    ] = None
    allowed_namespaces: Annotated[
        tuple[str, ...], Field(description="Patterns of other namespaces whose pods may mount it.")
    ] = ()
    anonymous: Annotated[
        bool, Field(description="Without credentials it may not use the node's, even if the chart grants them.")
    ] = False
    observe: Annotated[ObservePolicy, Field(description="Off: the node does not observe reads of it.")] = (
        ObservePolicy.AUTO
    )
    tuning: Annotated[NodeTuning, Field(description="Its tuning.")] = NodeTuning()
    refused: Annotated[
        ShortMessage, Field(description="Why new mounts are refused, in a sentence. Existing mounts continue.")
    ] = ""

    def __post_init__(self) -> None:
        """Apply what the fields' types cannot say: nodes get the plain source, and a bounded sentence."""
        if isinstance(self.source, DatasetSource):
            force_setattr(self, "source", self.source.plain())
        if len(self.refused) > MOST_SHORT_MESSAGE:
            force_setattr(self, "refused", shortened(self.refused, MOST_SHORT_MESSAGE))

    @property
    def adopted(self) -> bool:
        """True if only the node reported it (docs/adr/0007): the operator did not place it there."""
        return self.groups.adopted

    @property
    def links(self) -> tuple[str, ...]:
        """host:port of nodes of other groups. This node and they may request files from each other."""
        return self.groups.links
