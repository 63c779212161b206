"""NodeCache: the wire between operator (spec: what a node should hold) and sidecar (status: what it holds)."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from stoker_api import names
from stoker_api.cache_memory import NodeMemory, PinnedMemory, WarmedPages
from stoker_api.dataset import MountMode
from stoker_api.dataset_status import SkippedKeys
from stoker_api.goodput import MOST_ENDED, EndedPod
from stoker_api.meta import Condition, Model, PrinterColumn, Resource, ShortMessage
from stoker_api.node_dataset import NodeDataset
from stoker_api.node_hardware import NodeHardware
from stoker_api.node_storage import MOST_MOUNTS, CacheFolder, NodeMount
from stoker_api.node_workload import MOST_WORKLOADS, NodeWorkload
from stoker_api.origin import MOST_ORIGINS, NodeOrigin, OriginShare
from stoker_api.shared_neighbours import ROW_FIELDS, SharedNeighbours, shared_by, spread
from stoker_api.tuning import MOST_NODE_PROFILES, MOST_TUNING_ROWS, NodeProfile, NodeRuleFigures
from stoker_api.warm_paths import WarmPathsStatus

_INT64 = {"format": "int64"}
# Each list has one writer, who writes it whole. As a map of its items it would have its field manager's notes on each
# field of each item beside it: a third of the object.
_ATOMIC = {"x-kubernetes-list-type": "atomic"}

REPORT_SECONDS = 2  # between two reports in which only figures moved: what an eye can follow
MOST_REPORT_SECONDS = 86_400

MOST_NODE_PLUGINS = 32


class NodePhase(StrEnum):
    """What a node does for one dataset."""

    PENDING = "Pending"  # no version known yet
    LISTING = "Listing"
    WARMING = "Warming"
    WARM = "Warm"  # every byte of the version is here and verified
    PATHS_WARM = "PathsWarm"  # every byte of what warm.paths names is here; the rest is fetched when it is read
    FULL = "Full"  # what fits the quota is here
    IDLE = "Idle"  # on demand, manual or paused: readable, not warming
    FAILED = "Failed"
    CLEANING = "Cleaning"


class NodeCacheSpec(Model):
    """What the operator wants of the node."""

    datasets: Annotated[
        tuple[NodeDataset, ...], Field(description="What it should serve.", json_schema_extra=_ATOMIC)
    ] = ()
    neighbourhoods: Annotated[
        tuple[SharedNeighbours, ...],
        Field(
            description="`peers`, `position` and `groups` that several of `datasets` have alike: they are those rows' "
            "own, and stand here once. Only for nodes that say `sharedNeighbours`.",
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    keep_unlisted: Annotated[
        bool,
        Field(description="The plan was made before the node said what is on its disk: what is not in it stays."),
    ] = False
    keep: Annotated[
        tuple[str, ...],
        Field(
            description="UIDs of what stays on the disk although it is not in `datasets`.", json_schema_extra=_ATOMIC
        ),
    ] = ()
    origins: Annotated[
        tuple[OriginShare, ...],
        Field(
            description="What it may ask object stores for, of those that are capped; it stays so while nobody says "
            "otherwise.",
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    leaving: Annotated[
        str,
        Field(description="Why the node is taken for one that is about to go, and is given nothing new; else empty."),
    ] = ""

    report_seconds: Annotated[
        int,
        Field(
            description="Seconds between two reports in which only figures moved; others are sent at once.",
            ge=REPORT_SECONDS,
            le=MOST_REPORT_SECONDS,
        ),
    ] = REPORT_SECONDS

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, given: Any) -> Any:
        """Give rows what ``neighbourhoods`` say of them: a spec that was read has whole rows, and none of those."""
        return spread_spec(given) if isinstance(given, Mapping) else given

    def wire(self, *, shared_neighbours: bool = False) -> dict[str, object]:
        """Return the JSON form; of each Dataset what differs from its default, since there may be a thousand.

        ``shared_neighbours``: those that several Datasets have alike stand in it once.
        """
        blocks = shared_by(self.datasets) if shared_neighbours else ()
        spared = {at for block in blocks for at in block.rows}
        rows = (_row(row, ROW_FIELDS if at in spared else set()) for at, row in enumerate(self.datasets))
        rest = self.model_dump(by_alias=True, exclude_defaults=True, mode="json", exclude={"datasets"})
        shared = {"neighbourhoods": [block.wire() for block in blocks]} if blocks else {}
        return {"datasets": list(rows)} | shared | rest


def spread_spec(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a spec, as it came from JSON, with all neighbours in its rows. Raises ValueError for a row that is not."""
    blocks, rows = given.get("neighbourhoods"), given.get("datasets")
    if not blocks or not isinstance(blocks, Sequence) or not isinstance(rows, Sequence):
        return given
    rest = {name: value for name, value in given.items() if name != "neighbourhoods"}
    return rest | {"datasets": spread(rows, blocks)}


def _row(row: NodeDataset, left_out: set[str]) -> dict[str, object]:
    return row.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json", exclude=left_out)


class NodeError(Model):
    """Why a dataset does not get on at a node."""

    reason: Annotated[str, Field(description="One CamelCase word; docs/TROUBLESHOOTING.md explains each.")]
    message: Annotated[ShortMessage, Field(description="What went wrong, in a sentence.")]
    temporary: Annotated[bool, Field(description="True: the node goes on trying by itself.")] = True


class ListingResult(Model):
    """What a listing found."""

    id: Annotated[str, Field(description="The listingId that this answers.")]
    version: Annotated[str, Field(description="Digest; empty when the listing failed.")] = ""
    files: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    skipped: tuple[SkippedKeys, ...] = ()
    error: NodeError | None = None
    finished_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None


class OlderVersionStatus(Model):
    """How far this node is with another version than the current one."""

    version: str
    phase: NodePhase = NodePhase.PENDING
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    error: NodeError | None = None


class NodeDatasetStatus(Model):
    """One dataset on this node, as it is."""

    namespace: str
    name: str
    uid: str
    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    phase: NodePhase = NodePhase.PENDING
    version: Annotated[str, Field(description="The version that the figures below are about.")] = ""
    files: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_files: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    fetched_files: Annotated[
        int,
        Field(
            json_schema_extra=_INT64, description="Files fetched from the source for this version; the rest was linked."
        ),
    ] = 0
    source_bytes: Annotated[
        int,
        Field(json_schema_extra=_INT64, description="Bytes that came from the source since its fetcher was started."),
    ] = 0
    peer_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Bytes that other nodes gave since then.")
    ] = 0
    bytes_per_second: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    best_source_bytes_per_second: Annotated[
        int | None,
        Field(
            json_schema_extra=_INT64,
            description="The best rate from the source of warm-ups that no limit, cap or SlowDown holds back, and to "
            "which no other node gives, to one digit; absent: too little was seen.",
        ),
    ] = None
    eta_seconds: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    mode: Annotated[MountMode | None, Field(description="How a pod that mounts now would read.")] = None
    listing: ListingResult | None = None
    error: NodeError | None = None
    retained: Annotated[
        tuple[str, ...],
        Field(description="Other versions still on this disk; all of them while `version` is not open."),
    ] = ()
    older: Annotated[
        tuple[OlderVersionStatus, ...],
        Field(description="Other versions: those of the plan, and what is open of others."),
    ] = ()
    warm_paths: Annotated[
        WarmPathsStatus | None,
        Field(description="What of `warm.paths` or `warm.list` is here; absent: neither is there, or not known yet."),
    ] = None
    pages: Annotated[
        WarmedPages | None, Field(description="How far `warm.pages` is; absent: nobody asked, or it is not warm yet.")
    ] = None
    memory: Annotated[
        PinnedMemory | None, Field(description="What of `cache.memory` is in memory; absent: it asks for none.")
    ] = None


class NodePlugin(Model):
    """A framework plug-in that this node may ask, and what its answers count for."""

    name: Annotated[str, Field(description="Of the framework.", max_length=40)]
    package: Annotated[str, Field(description="That it came with, and its version.", max_length=100)] = ""
    rules: Annotated[int, Field(description="Of its own that are in force here.")] = 0
    templates: Annotated[int, Field(description="Of its own.")] = 0
    message: Annotated[ShortMessage, Field(description="Why it is left out; empty: it is not.")] = ""


class NodeOrderPlugin(Model):
    """An order plug-in that this node may ask."""

    name: Annotated[str, Field(description="Jobs name it as the sampler plugin:NAME.", max_length=40)]
    package: Annotated[str, Field(description="That it came with, and its version.", max_length=100)] = ""
    message: Annotated[
        ShortMessage,
        Field(description="Why it cannot be asked, or told no order when it was asked last; empty: nothing is wrong."),
    ] = ""


class NodeCacheStatus(Model):
    """What the sidecar found and did. Bytes everywhere."""

    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    address: Annotated[str, Field(description="host:port where this node serves manifests and metrics.")] = ""
    sidecar_version: str = ""
    shared_neighbours: Annotated[bool, Field(description="Its sidecar reads `spec.neighbourhoods`.")] = False
    modes: Annotated[
        tuple[MountMode, ...], Field(description="Mount modes that this kernel and disk allow, best first.")
    ] = ()
    modes_message: Annotated[
        ShortMessage, Field(description="Why there is no overlay among them, or for which Datasets not.")
    ] = ""
    confinement: Annotated[
        ShortMessage,
        Field(
            description="What holds fetcher and FUSE servers to the files that they need; None, and why, if nothing."
        ),
    ] = ""
    observer: Annotated[
        ShortMessage,
        Field(description="What sees reads of native and overlay mounts, with its budget; None, and why, if nothing."),
    ] = ""
    cpus: Annotated[
        ShortMessage,
        Field(description="CPUs that the fetcher and its workers run on, and what is wrong with those asked for."),
    ] = ""
    plugins: Annotated[
        tuple[NodePlugin, ...],
        Field(
            description="Framework plug-ins that have been asked.",
            max_length=MOST_NODE_PLUGINS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    order_plugins: Annotated[
        tuple[NodeOrderPlugin, ...],
        Field(
            description="Order plug-ins that may be asked, once it is known whether they are there.",
            max_length=MOST_NODE_PLUGINS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    hardware: Annotated[NodeHardware, Field(description="What rules may ask of the machine.")] = NodeHardware()
    capacity_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    used_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    available_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="What new datasets may still take: free space less the floor.")
    ] = 0
    capacity: str = ""
    used: str = ""
    cache_folders: Annotated[
        tuple[CacheFolder, ...],
        Field(
            json_schema_extra=_ATOMIC,
            description="The preferred one first.",
        ),
    ] = ()
    memory: Annotated[NodeMemory, Field(description="What Datasets keep in memory, of `cache.memory`.")] = NodeMemory()
    origins: Annotated[
        tuple[NodeOrigin, ...],
        Field(
            description="Buckets that it asks, or that asked for less lately.",
            max_length=MOST_ORIGINS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    warming: Annotated[str, Field(description="Datasets warming / datasets planned.")] = ""
    dataset_count: Annotated[
        int, Field(description="Datasets that are planned or on the disk, also beyond `datasets`.")
    ] = 0
    datasets: Annotated[tuple[NodeDatasetStatus, ...], Field(json_schema_extra=_ATOMIC)] = ()
    inventory: Annotated[
        bool, Field(description="`datasets` has a row for all that lies in the cache folders, planned or not.")
    ] = False
    mounts: Annotated[
        tuple[NodeMount, ...],
        Field(
            description=f"Published volumes, and those that wait, {MOST_MOUNTS} at most.",
            # The API server alone refuses more: what a sidecar before this bound wrote has to be read once.
            json_schema_extra=_ATOMIC | {"maxItems": MOST_MOUNTS},
        ),
    ] = ()
    mount_count: Annotated[int, Field(description="Published volumes, and those that wait, also beyond `mounts`.")] = 0
    workloads: Annotated[
        tuple[NodeWorkload, ...],
        Field(
            description="What pods do with their Datasets, 10 at most.",
            max_length=MOST_WORKLOADS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    workload_count: Annotated[
        int, Field(description="Pods of which is known what they do, also beyond `workloads`.")
    ] = 0
    ended: Annotated[
        tuple[EndedPod, ...],
        Field(
            description=f"What pods that have ended had of their Datasets: of the last hour, {MOST_ENDED} at most.",
            max_length=MOST_ENDED,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    ended_left_out: Annotated[
        int,
        Field(description="Pods that left `ended` for others, before their hour was over.", json_schema_extra=_INT64),
    ] = 0
    tuning_profiles: Annotated[
        tuple[NodeProfile, ...],
        Field(
            description="TuningProfiles that its Datasets have.",
            max_length=MOST_NODE_PROFILES,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    tuning: Annotated[
        tuple[NodeRuleFigures, ...],
        Field(
            description="What came of rules here, of those that applied most often.",
            max_length=MOST_TUNING_ROWS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()


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
    )

    spec: NodeCacheSpec = NodeCacheSpec()
    status: NodeCacheStatus = NodeCacheStatus()
