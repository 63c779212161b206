"""Dataset: what training data is, where it comes from, and how warm it should be kept."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from stoker_api import names
from stoker_api.cache_memory import CacheMemory
from stoker_api.dataset_source import DatasetSource
from stoker_api.dataset_status import DatasetStatus
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
)
from stoker_api.node_selection import (
    MOST_EXPRESSIONS,
    MOST_TOLERATIONS,
    NodeSelectorRequirement,
    Toleration,
    TopologySpreadConstraint,
)
from stoker_api.tuning import Tuning
from stoker_api.warm_deadline import WarmDeadline
from stoker_api.warm_list import LIST_OR_PATHS, LIST_OR_PATHS_RULE, WarmListName
from stoker_api.warm_paths import WarmPathList, told_as_list

MOST_REPLICAS = 10_000  # nodes: twice what Kubernetes is made for
MOST_PRIORITY = 1000
MOST_WARM_NODES = 100
_NODE = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN_PATTERN)]
_LABEL_VALUE = Annotated[str, Field(max_length=63)]
_LABEL_KEY = Annotated[str, Field(max_length=317)]  # a prefix of 253 characters, a slash, a name of 63
_SHARE = r"^([1-9][0-9]?|100)%$"


def replicas_schema(field: str, *, share: bool = False) -> dict[str, JsonValue]:
    """Return what a structural schema says of ``field`` in place of the union of a number and ``all``.

    ``share``: a percentage is allowed too.
    """
    rule = cel_rule(
        f"type(self) == int ? self >= 0 && self <= {MOST_REPLICAS} : self == 'all'"
        + (f" || string(self).matches('{_SHARE}')" if share else ""),
        f"{field} must be 0 to {MOST_REPLICAS}, or 'all'" + (", or a share of the nodes, 1% to 100%" if share else ""),
    )
    return {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [rule]}


def _left_out(schema: dict[str, JsonValue]) -> None:
    """Take the default out of a field's schema, lest the API server write it: what is absent is the class's to say."""
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
    """How strictly a pod is held for, and sent to, warm nodes."""

    PREFER = "Prefer"
    REQUIRE = "Require"
    NONE = "None"


class MountMode(StrEnum):
    """How a node serves a tree: see docs/ARCHITECTURE.md."""

    NATIVE = "native"
    OVERLAY = "overlay"
    FUSE = "fuse"


class ObservePolicy(StrEnum):
    """Whether the nodes look at which files pods read."""

    AUTO = "Auto"  # where the node can, within its budget
    OFF = "Off"


class NeighbourPolicy(StrEnum):
    """Whether nodes that are to have a Dataset give it to each other."""

    AUTO = "Auto"  # where several are to have it
    OFF = "Off"  # each fetches all of it from the source


class Cache(Model):
    """On which nodes, and how much."""

    replicas: Annotated[
        Annotated[int, Field(ge=0, le=MOST_REPLICAS)] | Literal["all"] | Annotated[str, Field(pattern=_SHARE)],
        Field(
            description="Nodes that hold the dataset whole, 10000 at most; 0: only where pods land; all: every "
            "selected node; 50%: that share of them, rounded up.",
            json_schema_extra=replicas_schema("cache.replicas", share=True),
        ),
    ] = 1
    node_selector: Annotated[
        dict[_LABEL_KEY, _LABEL_VALUE],
        Field(description="Labels that a node must have to hold this dataset.", max_length=32),
    ] = Field(default_factory=dict)
    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Field(
            description="What labels of a node must be beside nodeSelector, all of it.",
            max_length=MOST_EXPRESSIONS,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    tolerations: Annotated[
        tuple[Toleration, ...] | None,
        Field(
            description="Given, also empty: nodes with other taints of the effect NoSchedule are given nothing new, "
            "and those with NoExecute nothing. Absent: tainted nodes come last.",
            max_length=MOST_TOLERATIONS,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    topology_spread: Annotated[
        TopologySpreadConstraint | None,
        Field(description="How replicas are spread over zones, racks and the like. Absent: by room alone."),
    ] = None
    quota: Annotated[
        Quantity | None,
        Field(description="Bytes per node. A larger dataset keeps what fits, without churn; the rest is read through."),
    ] = None
    pinned: Annotated[bool, Field(description="Never dropped from a node while idle.")] = False
    memory: Annotated[
        CacheMemory, Field(description="What stays in the nodes' memory while it is mounted, not on their disks alone.")
    ] = CacheMemory()


class Warm(Model):
    """When and how fast bytes are fetched."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": [LIST_OR_PATHS_RULE]})
    policy: Annotated[
        WarmPolicy,
        Field(
            description="Eager: at once. OnDemand: as pods read. Manual: after `stoker warm`. Absent: as its class "
            "says, else Eager.",
            json_schema_extra=_left_out,
        ),
    ] = WarmPolicy.EAGER
    priority: Annotated[
        int,
        Field(
            description="Datasets of higher priority are fetched first, and idle ones make room for them. Absent: as "
            "its class says, else 0.",
            ge=-MOST_PRIORITY,
            le=MOST_PRIORITY,
            json_schema_extra=_left_out,
        ),
    ] = 0
    bandwidth_limit: Annotated[
        Quantity | None,
        Field(
            description="Bytes a second and node for warming, 0: no limit; reads by pods go first and are not limited. "
            "Absent: as its class says, else no limit."
        ),
    ] = None
    paused: Annotated[bool, Field(description="Hold warming; reads by pods go on.")] = False
    deadline: Annotated[
        WarmDeadline | None,
        Field(
            description="By when it is to be warm. Of Datasets of one priority the one that is due first goes first; "
            "the condition OnTime says whether it will be."
        ),
    ] = None
    paths: Annotated[
        WarmPathList,
        Field(
            description="Folders, files or patterns (* stops at '/', ** does not; 100 patterns at most) that are "
            "warmed, in this order; the rest is fetched when it is read. Empty: all.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    list: Annotated[
        WarmListName | None,
        Field(
            description="In place of paths: a text file of the Dataset itself (UTF-8, 32 MiB at most), whose lines are "
            "the paths, 200000 at most. Each node reads the one of the version that it warms."
        ),
    ] = None
    nodes: Annotated[
        tuple[_NODE, ...],
        Field(
            description="Nodes by name: just these hold it, whatever cache.replicas says, and others read through. "
            "Empty: as cache says.",
            max_length=MOST_WARM_NODES,
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = ()
    pages: Annotated[
        bool,
        Field(
            description="Bring what is warmed into the page cache too, as far as the nodes' memory has room; once, and "
            "again at each `stoker warm`."
        ),
    ] = False
    neighbours: Annotated[
        NeighbourPolicy,
        Field(
            description="Auto: nodes that are to have it fetch it from the source once, and give it to each other. "
            "Off (in quotes: a bare one is false in YAML): each fetches all of it from the source. Absent: as its "
            "class says, else Auto.",
            json_schema_extra=_left_out,
        ),
    ] = NeighbourPolicy.AUTO

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.list is not None and self.paths:
            raise ValueError(LIST_OR_PATHS)
        return self

    @property
    def told_paths(self) -> tuple[str, ...]:
        """Return the paths that nodes are told of, or what stands for a list; empty: all of it is warmed."""
        return self.paths if self.list is None else told_as_list(self.list)

    @property
    def part_field(self) -> str:
        """Return the field that says which part of it is warmed."""
        return "warm.paths" if self.list is None else "warm.list"


class Refresh(Model):
    """Whether new versions of the source are taken over."""

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
    """The default for pods that mount the Dataset."""

    mode: Annotated[
        SchedulingMode,
        Field(
            description="Prefer: held until warm or maxWait, then released. Require: only warm nodes. None: never held."
        ),
    ] = SchedulingMode.PREFER
    max_wait: Annotated[
        Duration, Field(description="How long a pod is held at most (Prefer), from when no other gate holds it.")
    ] = "10m"


class Access(Model):
    """Who else may mount the Dataset."""

    namespaces: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9*-]+$")], ...],
        Field(description="Namespaces (with * as a wildcard) that may mount it beside its own.", max_length=100),
    ] = ()


class DatasetSpec(Model):
    """What its owner asks for."""

    class_name: Annotated[
        Name | None, Field(description="The DatasetClass that limits it. Absent: the default one, where there is one.")
    ] = None
    source: Annotated[DatasetSource, Field(description="Where the bytes come from.")]
    cache: Annotated[Cache, Field(description="On which nodes, and how much.")] = Cache()
    warm: Annotated[Warm, Field(description="When and how fast bytes are fetched.")] = Warm()
    refresh: Annotated[Refresh, Field(description="Whether new versions of the source are taken over.")] = Refresh()
    scheduling: Annotated[Scheduling, Field(description="Default for pods that mount it.")] = Scheduling()
    access: Annotated[Access, Field(description="Namespaces that may mount it beside its own.")] = Access()
    observe: Annotated[
        ObservePolicy,
        Field(
            description="Auto: nodes look at which files pods read, within a budget, for speed and stall of workloads. "
            "Off (in quotes: a bare one is false in YAML): they do not."
        ),
    ] = ObservePolicy.AUTO
    tuning: Annotated[
        Tuning,
        Field(description="How what is seen of its workloads is acted upon; what a TrainingJob says goes before it."),
    ] = Tuning()


class Dataset(Resource):
    """Training data in an object store, kept warm on the nodes that need it."""

    KIND: ClassVar[str] = "Dataset"
    PLURAL: ClassVar[str] = names.DATASETS_PLURAL
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("dset",)
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]] = "Namespaced"
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
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
    )

    spec: DatasetSpec
    status: DatasetStatus = DatasetStatus()
