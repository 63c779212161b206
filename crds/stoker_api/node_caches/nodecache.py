"""NodeCache: the wire between operator (spec: a node's plan) and sidecar (status: its contents)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from stoker_api import names
from stoker_api.datasets.origin import OriginShare
from stoker_api.meta import (
    Model,
    PrinterColumn,
    Resource,
)
from stoker_api.node_caches.node_dataset import NodeDataset, PeerLinks, Peers, Position
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_api.node_caches.peers import PeerCertificate

ROW_FIELDS = {"peers", "position", "groups"}  # fields of a row that are stored here instead


class SharedPeers(Model):
    """The common part of several rows of a NodeCache's spec."""

    rows: Annotated[tuple[int, ...], Field(description="Positions of the rows in `datasets`, from 0.")]
    peers: Peers = ()
    position: Position = 0
    groups: PeerLinks = PeerLinks()

    def wire(self) -> dict[str, object]:
        """Return the JSON form, without defaults."""
        return self.model_dump(by_alias=True, exclude_defaults=True, mode="json")


def shared_by(rows: Sequence[NodeDataset]) -> Sequence[SharedPeers]:
    """Return the common parts of two or more rows. Pure."""
    alike: dict[tuple[tuple[str, ...], int, PeerLinks], list[int]] = {}
    for at, row in enumerate(rows):
        if row.peers:
            alike.setdefault((row.peers, row.position, row.groups), []).append(at)
    return [
        SharedPeers(rows=tuple(numbers), peers=peers, position=position, groups=groups)
        for (peers, position, groups), numbers in alike.items()
        if len(numbers) > 1
    ]


def spread(rows: Sequence[Any], blocks: Iterable[Any]) -> list[Any]:
    """Return rows from JSON with the fields of ``blocks``, also from JSON. Rows of a block have the same ``groups``.

    Raises ValueError if a block names a missing row.
    """
    found = list(rows)
    for block in blocks:
        shared = SharedPeers.model_validate(block)
        told = {**_told(block), "groups": shared.groups}
        for at in shared.rows:
            if not 0 <= at < len(found) or not isinstance(found[at], Mapping):
                raise ValueError(f"peers refer to row {at}, which does not exist")
            found[at] = {**found[at], **told}
    return found


def _told(block: Any) -> Mapping[str, Any]:
    return {key: value for key, value in block.items() if key in ROW_FIELDS} if isinstance(block, Mapping) else {}


# One writer writes each list whole. As a map, a list would carry managed-field entries for each field of each item: a
# third of the object.
_ATOMIC = {"x-kubernetes-list-type": "atomic"}

REPORT_SECONDS = 2  # between two reports with changed figures only: as fast as people can follow
MOST_REPORT_SECONDS = 86_400


class NodeCacheSpec(Model):
    """The operator's plan for the node."""

    datasets: Annotated[
        tuple[NodeDataset, ...], Field(description="Datasets that it should serve.", json_schema_extra=_ATOMIC)
    ] = ()
    neighbourhoods: Annotated[
        tuple[SharedPeers, ...],
        Field(
            description="`peers`, `position` and `groups` that several rows of `datasets` share, stored once. Only "
            "for nodes that report `sharedNeighbours`.",
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    keep_unlisted: Annotated[
        bool,
        Field(
            description="The plan is older than the node's inventory: Datasets on the disk that are not in the plan "
            "stay."
        ),
    ] = False
    keep: Annotated[
        tuple[str, ...],
        Field(
            description="UIDs of Datasets that stay on the disk although they are not in `datasets`.",
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    origins: Annotated[
        tuple[OriginShare, ...],
        Field(
            description="The node's shares of capped object stores. They stay in force until the operator changes "
            "them.",
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    peer: Annotated[
        PeerCertificate, Field(description="The node's certificate for its peers, signed by the operator.")
    ] = PeerCertificate()
    leaving: Annotated[
        str,
        Field(description="Why the node counts as leaving and gets no new data. Empty: it does not."),
    ] = ""

    report_seconds: Annotated[
        int,
        Field(
            description="Seconds between two reports with changed figures only. Other changes are sent at once.",
            ge=REPORT_SECONDS,
            le=MOST_REPORT_SECONDS,
        ),
    ] = REPORT_SECONDS

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, given: Any) -> Any:
        """Copy ``neighbourhoods`` into the rows. A parsed spec has complete rows and no ``neighbourhoods``."""
        return spread_spec(given) if isinstance(given, Mapping) else given

    def wire(self, *, shared_neighbours: bool = False) -> dict[str, object]:
        """Return the JSON form. Each Dataset omits defaults, since there may be a thousand.

        Without ``peer``, which has another field manager. ``shared_neighbours`` stores peers that several Datasets
        share once.
        """
        blocks = shared_by(self.datasets) if shared_neighbours else ()
        spared = {at for block in blocks for at in block.rows}
        rows = (_row(row, ROW_FIELDS if at in spared else set()) for at, row in enumerate(self.datasets))
        rest = self.model_dump(by_alias=True, exclude_defaults=True, mode="json", exclude={"datasets", "peer"})
        shared = {"neighbourhoods": [block.wire() for block in blocks]} if blocks else {}
        return {"datasets": list(rows)} | shared | rest


def spread_spec(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a spec from JSON with all peers in its rows. Raises ValueError for a missing row."""
    blocks, rows = given.get("neighbourhoods"), given.get("datasets")
    if not blocks or not isinstance(blocks, Sequence) or not isinstance(rows, Sequence):
        return given
    rest = {name: value for name, value in given.items() if name != "neighbourhoods"}
    return rest | {"datasets": spread(rows, blocks)}


def _row(row: NodeDataset, left_out: set[str]) -> dict[str, object]:
    return row.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json", exclude=left_out)


class NodeCache(Resource):
    """The cache of one node; named like the node and owned by it."""

    KIND: ClassVar[str] = "NodeCache"
    PLURAL: ClassVar[str] = names.NODE_CACHES_PLURAL
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("nc",)
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]] = "Cluster"
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn(name="Ready", type="string", json_path='.status.conditions[?(@.type=="Ready")].status'),
        PrinterColumn(name="Datasets", type="integer", json_path=".status.datasetCount"),
        PrinterColumn(name="Used", type="string", json_path=".status.used"),
        PrinterColumn(name="Capacity", type="string", json_path=".status.capacity"),
        PrinterColumn(name="Warming", type="string", json_path=".status.warming"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(
            name="Message", type="string", json_path='.status.conditions[?(@.type=="Ready")].message', priority=1
        ),
    )

    spec: NodeCacheSpec = NodeCacheSpec()
    status: NodeCacheStatus = NodeCacheStatus()

    @property
    def is_revoked(self) -> bool:
        """True if an administrator revoked the node's right to exchange files and to list for other nodes."""
        return self.metadata.annotations.get(names.ANNOTATION_PEERS) == "Off"
