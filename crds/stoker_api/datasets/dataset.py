"""Dataset: the source of training data, and how warm to keep it."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AliasChoices, Field, JsonValue, model_validator

from stoker_api import names
from stoker_api.datasets.cache_memory import CacheMemory
from stoker_api.datasets.dataset_source import DatasetSource
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.datasets.node_selection import (
    MOST_EXPRESSIONS,
    MOST_TOLERATIONS,
    NodeSelectorRequirement,
    Toleration,
    TopologySpreadConstraint,
)
from stoker_api.datasets.warm_deadline import WarmDeadline
from stoker_api.datasets.warm_list import LIST_OR_PATHS, LIST_OR_PATHS_RULE, WarmListName
from stoker_api.datasets.warm_paths import WarmPathList, told_as_list
from stoker_api.meta import (
    DNS_SUBDOMAIN_PATTERN,
    DURATION_RULE,
    Duration,
    Model,
    Name,
    PrinterColumn,
    Quantity,
    Resource,
    cel_rule,
    with_old_name,
)
from stoker_api.profiles.tuning import Tuning

MOST_REPLICAS = 10_000  # nodes: twice the 5,000 that Kubernetes supports
MOST_PRIORITY = 1000
MOST_WARM_NODES = 100
_NODE = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN_PATTERN)]
_LABEL_VALUE = Annotated[str, Field(max_length=63)]
_LABEL_KEY = Annotated[str, Field(max_length=317)]  # a prefix of 253 characters, a slash, a name of 63
_SHARE = r"^([1-9][0-9]?|100)%$"


def replicas_schema(field: str, *, share: bool = False) -> dict[str, JsonValue]:
    """Return the structural schema of ``field``, instead of the union of a number and ``all``.

    ``share`` also allows a percentage.
    """
    rule = cel_rule(
        f"type(self) == int ? self >= 0 && self <= {MOST_REPLICAS} : self == 'all'"
        + (f" || string(self).matches('{_SHARE}')" if share else ""),
        f"{field} must be 0 to {MOST_REPLICAS}, or 'all'" + (", or a share of the nodes, 1% to 100%" if share else ""),
    )
    return {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [rule]}


def _left_out(schema: dict[str, JsonValue]) -> None:
    """Remove the default from a field's schema. Otherwise the API server writes it, and the class has no say."""
    schema.pop("default", None)


class WarmPolicy(StrEnum):
    """When bytes are fetched."""

    EAGER = "Eager"
    ON_DEMAND = "OnDemand"
    MANUAL = "Manual"


class RefreshPolicy(StrEnum):
    """Whether a Dataset follows its source."""

    PINNED = "Pinned"
    FOLLOW = "Follow"


class SchedulingMode(StrEnum):
    """How strictly pods wait for warm nodes and are sent to them."""

    PREFER = "Prefer"
    REQUIRE = "Require"
    NONE = "None"


class MountMode(StrEnum):
    """How a node serves a tree; see docs/design/architecture.md."""

    NATIVE = "native"
    OVERLAY = "overlay"
    FUSE = "fuse"


class ObservePolicy(StrEnum):
    """Whether nodes observe which files pods read."""

    AUTO = "Auto"  # where the node can, within its budget
    OFF = "Off"


class PeerPolicy(StrEnum):
    """Whether nodes of a Dataset exchange its files."""

    AUTO = "Auto"  # if several nodes hold it
    OFF = "Off"  # each node fetches all of it from the source


class PeerProof(StrEnum):
    """The proof that a node needs for bytes from another node."""

    CRYPTOGRAPHIC = "Cryptographic"  # SHA-256, SHA-1, or the MD5s of an ETag
    CHECKSUM = "Checksum"  # also a CRC, which a malicious node can forge


class Cache(Model):
    """On which nodes, and how much."""

    replicas: Annotated[
        Annotated[int, Field(ge=0, le=MOST_REPLICAS)] | Literal["all"] | Annotated[str, Field(pattern=_SHARE)],
        Field(
            description="Nodes that hold the whole dataset, 10000 at most. 0: only nodes of its pods. all: every "
            "selected node. 50%: that share of them, rounded up.",
            json_schema_extra=replicas_schema("cache.replicas", share=True),
        ),
    ] = 1
    node_selector: Annotated[
        dict[_LABEL_KEY, _LABEL_VALUE],
        Field(description="Labels that a node needs to hold this dataset.", max_length=32),
    ] = Field(default_factory=dict)
    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Field(
            description="Further requirements on a node's labels. All must match.",
            max_length=MOST_EXPRESSIONS,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    tolerations: Annotated[
        tuple[Toleration, ...] | None,
        Field(
            description="If set, also to an empty list: nodes with other NoSchedule taints get no new data, and nodes "
            "with other NoExecute taints get none. Absent: tainted nodes come last.",
            max_length=MOST_TOLERATIONS,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    topology_spread: Annotated[
        TopologySpreadConstraint | None,
        Field(description="Spread of replicas over zones, racks and other domains. Absent: free space decides."),
    ] = None
    quota: Annotated[
        Quantity | None,
        Field(
            description="Bytes per node. Of a larger dataset the files that fit stay cached, and the rest is read "
            "through."
        ),
    ] = None
    pinned: Annotated[bool, Field(description="Nodes never evict it while it is idle.")] = False
    memory: Annotated[CacheMemory, Field(description="Part of it that nodes keep in memory while pods mount it.")] = (
        CacheMemory()
    )


class Warm(Model):
    """When and how fast bytes are fetched."""

    model_config = with_old_name(LIST_OR_PATHS_RULE, "neighbours", "peers")
    policy: Annotated[
        WarmPolicy,
        Field(
            description="Eager: at once. OnDemand: when a pod or a queued job names it. Manual: after `stoker warm`. "
            "Absent: the class decides, else Eager.",
            json_schema_extra=_left_out,
        ),
    ] = WarmPolicy.EAGER
    priority: Annotated[
        int,
        Field(
            description="Datasets of higher priority are fetched first and can evict idle ones. Absent: the class "
            "decides, else 0.",
            ge=-MOST_PRIORITY,
            le=MOST_PRIORITY,
            json_schema_extra=_left_out,
        ),
    ] = 0
    bandwidth_limit: Annotated[
        Quantity | None,
        Field(
            description="Bytes per second and node for warming. 0: no limit. Reads by pods go first and have no limit. "
            "Absent: the class decides, else no limit."
        ),
    ] = None
    paused: Annotated[bool, Field(description="Pause warming. Reads by pods continue.")] = False
    deadline: Annotated[
        WarmDeadline | None,
        Field(
            description="Time by which it must be warm. Among Datasets of one priority, the earliest deadline goes "
            "first. The condition OnTime shows the forecast."
        ),
    ] = None
    paths: Annotated[
        WarmPathList,
        Field(
            description="Folders, files or patterns to warm, in this order (* stops at '/', ** does not; 100 patterns "
            "at most). The rest is fetched when it is read. Empty: all.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    list: Annotated[
        WarmListName | None,
        Field(
            description="Instead of paths: a text file in the Dataset (UTF-8, 32 MiB at most) with one path a line, "
            "200000 at most. Each node reads the file of the version that it warms."
        ),
    ] = None
    nodes: Annotated[
        tuple[_NODE, ...],
        Field(
            description="Names of the only nodes that hold it. This overrides cache.replicas. Other nodes read "
            "through. Empty: cache decides.",
            max_length=MOST_WARM_NODES,
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = ()
    pages: Annotated[
        bool,
        Field(
            description="Also read warmed files into the page cache, within the nodes' memory. Nodes do this once, and "
            "again after each `stoker warm`."
        ),
    ] = False
    peers: Annotated[
        PeerPolicy,
        Field(
            description="Auto: its nodes fetch each file from the source once and exchange files. Off (quote it, since "
            "YAML reads a bare Off as false): each node fetches all of it from the source. Absent: the "
            "class decides, else Auto.",
            validation_alias=AliasChoices("peers", "neighbours"),
            serialization_alias="peers",
        ),
    ] = PeerPolicy.AUTO

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.list is not None and self.paths:
            raise ValueError(LIST_OR_PATHS)
        return self

    @property
    def told_paths(self) -> tuple[str, ...]:
        """Return the paths for the nodes, or the placeholder of a list. Empty: all of it is warmed."""
        return self.paths if self.list is None else told_as_list(self.list)

    @property
    def part_field(self) -> str:
        """Return the field that selects the warmed part."""
        return "warm.paths" if self.list is None else "warm.list"


class Refresh(Model):
    """Whether the Dataset moves to new versions of the source."""

    policy: Annotated[
        RefreshPolicy,
        Field(description="Pinned: one version until `stoker refresh`. Follow: list again every interval."),
    ] = RefreshPolicy.PINNED
    interval: Annotated[
        Duration,
        Field(
            description="Time between listings under Follow; 10s at least.",
            json_schema_extra={
                "x-kubernetes-validations": [
                    DURATION_RULE,
                    cel_rule("duration(self) >= duration('10s')", "refresh.interval must be 10s or more"),
                ]
            },
        ),
    ] = "10m"


class Scheduling(Model):
    """Default for pods that mount the Dataset."""

    mode: Annotated[
        SchedulingMode,
        Field(
            description="Prefer: held until warm or maxWait, then released. Require: only warm nodes. None: never held."
        ),
    ] = SchedulingMode.PREFER
    max_wait: Annotated[
        Duration,
        Field(description="Maximum hold time of a pod under Prefer. It starts when no other gate holds the pod."),
    ] = "10m"


class Access(Model):
    """Other namespaces whose pods may mount the Dataset."""

    namespaces: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9*-]+$")], ...],
        Field(description="Other namespaces that may mount it, with * as a wildcard.", max_length=100),
    ] = ()


class DatasetSpec(Model):
    """The owner's request."""

    class_name: Annotated[
        Name | None, Field(description="The DatasetClass that limits it. Absent: the default class, if there is one.")
    ] = None
    source: Annotated[DatasetSource, Field(description="Where the bytes come from.")]
    cache: Annotated[Cache, Field(description="On which nodes, and how much.")] = Cache()
    warm: Annotated[Warm, Field(description="When and how fast bytes are fetched.")] = Warm()
    refresh: Annotated[Refresh, Field(description="Whether it moves to new versions of the source.")] = Refresh()
    scheduling: Annotated[Scheduling, Field(description="Default for pods that mount it.")] = Scheduling()
    access: Annotated[Access, Field(description="Other namespaces that may mount it.")] = Access()
    observe: Annotated[
        ObservePolicy,
        Field(
            description="Auto: nodes observe which files pods read, within a budget, to measure speed and stall. Off "
            "(quote it, since YAML reads a bare Off as false): they do not."
        ),
    ] = ObservePolicy.AUTO
    tuning: Annotated[
        Tuning,
        Field(description="Tuning of its workloads. A TrainingJob's tuning overrides it."),
    ] = Tuning()


class Dataset(Resource):
    """Training data in an object store, kept warm on the nodes that need it."""

    KIND: ClassVar[str] = "Dataset"
    PLURAL: ClassVar[str] = names.DATASETS_PLURAL
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("dset",)
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]] = "Namespaced"
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]] = (
        # The first of the two that exists: an operator of an earlier release writes no state.
        PrinterColumn(name="Phase", type="string", json_path=".status['state','phase']"),
        PrinterColumn(name="Files", type="integer", json_path=".status.files"),
        PrinterColumn(name="Total", type="string", json_path=".status.total"),
        PrinterColumn(name="Cached", type="string", json_path=".status.cached"),
        PrinterColumn(name="Cached%", type="string", json_path=".status.cachedPercent"),
        PrinterColumn(name="Warm Nodes", type="string", json_path=".status.warmNodes"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Class", type="string", json_path=".status.className", priority=1),
        PrinterColumn(name="Version", type="string", json_path=".status.versionShort", priority=1),
        PrinterColumn(name="Speed", type="string", json_path=".status.speed", priority=1),
        PrinterColumn(name="ETA", type="string", json_path=".status.eta", priority=1),
        PrinterColumn(name="Warm By", type="string", json_path=".status.warmBy", priority=1),
        PrinterColumn(
            name="On Time", type="string", json_path='.status.conditions[?(@.type=="OnTime")].status', priority=1
        ),
        PrinterColumn(
            name="Message", type="string", json_path='.status.conditions[?(@.type=="Ready")].message', priority=1
        ),
    )

    spec: DatasetSpec
    status: DatasetStatus = DatasetStatus()
