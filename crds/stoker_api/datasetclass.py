"""DatasetClass: the limits that administrators set for the Datasets of their tenants."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from stoker_api import names
from stoker_api.cache_memory import MemoryLimits
from stoker_api.dataset import MOST_PRIORITY, MOST_REPLICAS, NeighbourPolicy, WarmPolicy, replicas_schema
from stoker_api.endpoint import ENDPOINT_GLOB_PATTERN
from stoker_api.meta import Model, PrinterColumn, Quantity, Resource, cel_rule
from stoker_api.tuning import TuningLimits

_PRIORITY = Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]
_NAMESPACES = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9*-]+$")]
_ENDPOINT = Annotated[str, Field(max_length=300, pattern=ENDPOINT_GLOB_PATTERN)]
_FOLDER = Annotated[str, Field(max_length=512, pattern=r"^/[^:,]*[^:,/]$")]


def _rules(rule: str, message: str) -> ConfigDict:
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": [cel_rule(rule, message)]})


class PriorityLimits(Model):
    """How far Datasets may go before those of others."""

    model_config = _rules(
        "!has(self.default) || !has(self.max) || self.default <= self.max",
        "priority.default must not be above priority.max",
    )
    default: Annotated[_PRIORITY, Field(description="Of Datasets that name none.")] = 0
    max: Annotated[_PRIORITY, Field(description="The highest; a higher one is taken as this.")] = 0


class PolicyLimits(Model):
    """When bytes may be fetched, and whether nodes may, or have to, give them to each other."""

    model_config = _rules(
        "!has(self.default) || self.default in self.policies", "warm.default must be one of warm.policies"
    )
    policies: Annotated[
        tuple[WarmPolicy, ...],
        Field(
            description="Policies that are allowed; another one is taken as the default. Without Eager and Manual "
            "`stoker warm` does nothing.",
            min_length=1,
            max_length=len(WarmPolicy),
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = tuple(WarmPolicy)
    default: Annotated[
        WarmPolicy | None, Field(description="Of Datasets that name none. Absent: the first of warm.policies.")
    ] = None
    neighbours: Annotated[
        tuple[NeighbourPolicy, ...],
        Field(
            description="Values of warm.neighbours that are allowed; another one is taken as the first of them, which "
            "Datasets have that name none. Auto alone: nodes always give each other what they have, if the chart has "
            "neighbours; Off (in quotes: a bare one is false in YAML) alone: never.",
            min_length=1,
            max_length=len(NeighbourPolicy),
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = tuple(NeighbourPolicy)


class BandwidthLimits(Model):
    """How fast a node may warm one Dataset."""

    default: Annotated[
        Quantity | None, Field(description="Bytes a second and node of Datasets that name none. Absent: the maximum.")
    ] = None
    max: Annotated[
        Quantity | None, Field(description="The most bytes a second and node; more is taken as this. Absent: no limit.")
    ] = None


class QuotaLimits(Model):
    """How much the Datasets of one namespace that have this class may hold together."""

    per_namespace: Annotated[Quantity | None, Field(description="Bytes over all nodes. Absent: no limit.")] = None
    per_node: Annotated[Quantity | None, Field(description="Bytes on each node. Absent: no limit.")] = None


class DatasetClassSpec(Model):
    """What Datasets of the class may ask for; empty, it is what applies where there is no class."""

    description: Annotated[str, Field(description="For people.", max_length=1024)] = ""
    namespaces: Annotated[
        tuple[_NAMESPACES, ...],
        Field(description="Namespaces (with * as a wildcard) whose Datasets may have the class.", max_length=100),
    ] = ("*",)
    priority: Annotated[PriorityLimits, Field(description="Limits of warm.priority.")] = PriorityLimits()
    allow_pinning: Annotated[bool, Field(description="Whether cache.pinned is followed.")] = False
    allow_deadlines: Annotated[
        bool, Field(description="Whether warm.deadline is followed: it goes before others of the same priority.")
    ] = False
    memory: Annotated[MemoryLimits, Field(description="Limits of cache.memory and warm.pages.")] = MemoryLimits()
    max_replicas: Annotated[
        Annotated[int, Field(ge=0, le=MOST_REPLICAS)] | Literal["all"],
        Field(
            description="The most nodes that hold a Dataset whole; more are taken as this. all: no limit.",
            json_schema_extra=replicas_schema("maxReplicas"),
        ),
    ] = "all"
    warm: Annotated[PolicyLimits, Field(description="Limits of warm.policy and warm.neighbours.")] = PolicyLimits()
    bandwidth: Annotated[BandwidthLimits, Field(description="Limits of warm.bandwidthLimit.")] = BandwidthLimits()
    endpoints: Annotated[
        tuple[_ENDPOINT, ...] | None,
        Field(
            description="Servers that s3:// sources may be at, such as https://minio.storage:9000 or "
            "https://s3.*.amazonaws.com (* is one name between dots); others are refused. Absent: all.",
            max_length=50,
        ),
    ] = None
    host_folders: Annotated[
        tuple[_FOLDER, ...] | None,
        Field(
            description="Folders beneath which file:// sources may lie, of those that the chart grants; others are "
            "refused. Absent: all that it grants.",
            max_length=50,
        ),
    ] = None
    allow_ambient_credentials: Annotated[
        bool,
        Field(
            description="Whether Datasets without credentials may use the nodes' own, where the chart grants them; "
            "false: they are asked for anonymously."
        ),
    ] = True
    quota: Annotated[QuotaLimits, Field(description="What the Datasets of one namespace may hold.")] = QuotaLimits()
    tuning: Annotated[TuningLimits, Field(description="Limits of tuning.")] = TuningLimits()


class DatasetClass(Resource):
    """Limits for Datasets, set by administrators as StorageClasses and PriorityClasses are."""

    KIND: ClassVar[str] = "DatasetClass"
    PLURAL: ClassVar[str] = names.DATASET_CLASSES_PLURAL
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("dsetclass",)
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]] = "Cluster"
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn(name="Default", type="string", json_path=names.DEFAULT_CLASS_PATH),
        PrinterColumn(name="Priority", type="integer", json_path=".spec.priority.max"),
        PrinterColumn(name="Pinning", type="boolean", json_path=".spec.allowPinning"),
        PrinterColumn(name="Replicas", type="string", json_path=".spec.maxReplicas"),
        PrinterColumn(name="Quota", type="string", json_path=".spec.quota.perNamespace"),
        PrinterColumn(name="Node Quota", type="string", json_path=".spec.quota.perNode"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Namespaces", type="string", json_path=".spec.namespaces", priority=1),
        PrinterColumn(name="Description", type="string", json_path=".spec.description", priority=1),
    )

    spec: DatasetClassSpec = DatasetClassSpec()

    @property
    def is_default(self) -> bool:
        """Tell whether Datasets that name no class get this one."""
        return self.metadata.annotations.get(names.ANNOTATION_DEFAULT_CLASS) == "true"
