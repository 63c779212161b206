"""DatasetClass: the limits that administrators set for the Datasets of their tenants."""

from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, ConfigDict, Field

from stoker_api import names
from stoker_api.datasets.cache_memory import MemoryLimits
from stoker_api.datasets.dataset import (
    MOST_PRIORITY,
    MOST_REPLICAS,
    PeerPolicy,
    PeerProof,
    WarmPolicy,
    replicas_schema,
)
from stoker_api.datasets.endpoint import ENDPOINT_GLOB_PATTERN
from stoker_api.meta import Model, PrinterColumn, Quantity, Resource, cel_rule, with_old_name
from stoker_api.profiles.tuning import TuningLimits

_PRIORITY = Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]
_NAMESPACES = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9*-]+$")]
_ENDPOINT = Annotated[str, Field(max_length=300, pattern=ENDPOINT_GLOB_PATTERN)]
_FOLDER = Annotated[str, Field(max_length=512, pattern=r"^/[^:,]*[^:,/]$")]


def _rules(rule: str, message: str) -> ConfigDict:
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": [cel_rule(rule, message)]})


_DEFAULT_RULE = cel_rule(
    "!has(self.default) || self.default in self.policies", "warm.default must be one of warm.policies"
)


class PriorityLimits(Model):
    """Limits on a Dataset's precedence over other Datasets."""

    model_config = _rules(
        "!has(self.default) || !has(self.max) || self.default <= self.max",
        "priority.default must not be above priority.max",
    )
    default: Annotated[_PRIORITY, Field(description="Priority of Datasets without one.")] = 0
    max: Annotated[_PRIORITY, Field(description="Maximum; higher values are reduced to it.")] = 0


class PolicyLimits(Model):
    """When bytes may be fetched, and whether nodes may or must exchange files."""

    model_config = with_old_name(_DEFAULT_RULE, "neighbours", "peers")
    policies: Annotated[
        tuple[WarmPolicy, ...],
        Field(
            description="Allowed policies; any other becomes the default. Without Eager and Manual, `stoker warm` does "
            "nothing.",
            min_length=1,
            max_length=len(WarmPolicy),
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
    ] = tuple(WarmPolicy)
    default: Annotated[
        WarmPolicy | None, Field(description="Policy of Datasets without one. Absent: the first of warm.policies.")
    ] = None
    peers: Annotated[
        tuple[PeerPolicy, ...],
        Field(
            description="Allowed values of warm.peers. Datasets with another value, or none, get the first one. "
            "Only Auto: nodes always exchange files, if the chart enables peers. Only Off (quote it, "
            "since YAML reads a bare Off as false): never.",
            min_length=1,
            max_length=len(PeerPolicy),
            json_schema_extra={"x-kubernetes-list-type": "set"},
            validation_alias=AliasChoices("peers", "neighbours"),
            serialization_alias="peers",
        ),
    ] = tuple(PeerPolicy)


class PeerLimits(Model):
    """Limits on file exchange between nodes."""

    proof: Annotated[
        PeerProof,
        Field(
            description="Cryptographic: a node keeps bytes from another node only if SHA-256, SHA-1, an MD5 ETag or a "
            "multipart ETag of the source proves them. Other files come from the source. Checksum: a CRC of "
            "the source is enough. A compromised node can then give other nodes bytes of its choice."
        ),
    ] = PeerProof.CRYPTOGRAPHIC


class BandwidthLimits(Model):
    """Rate limits of one Dataset's warm-up on a node."""

    default: Annotated[
        Quantity | None,
        Field(description="Bytes per second and node for Datasets without a limit. Absent: the maximum."),
    ] = None
    max: Annotated[
        Quantity | None,
        Field(description="Maximum bytes per second and node; higher values are reduced to it. Absent: no limit."),
    ] = None


class QuotaLimits(Model):
    """Limits on all Datasets of this class in one namespace together."""

    per_namespace: Annotated[Quantity | None, Field(description="Bytes over all nodes. Absent: no limit.")] = None
    per_node: Annotated[Quantity | None, Field(description="Bytes on each node. Absent: no limit.")] = None


class DatasetClassSpec(Model):
    """Limits for Datasets of the class. The empty class has the limits that apply without a class."""

    description: Annotated[str, Field(description="For people.", max_length=1024)] = ""
    namespaces: Annotated[
        tuple[_NAMESPACES, ...],
        Field(description="Namespaces whose Datasets may use the class, with * as a wildcard.", max_length=100),
    ] = ("*",)
    priority: Annotated[PriorityLimits, Field(description="Limits of warm.priority.")] = PriorityLimits()
    allow_pinning: Annotated[bool, Field(description="Whether cache.pinned takes effect.")] = False
    allow_deadlines: Annotated[
        bool,
        Field(
            description="Whether warm.deadline takes effect. A deadline gives precedence among Datasets of the same "
            "priority."
        ),
    ] = False
    memory: Annotated[MemoryLimits, Field(description="Limits of cache.memory and warm.pages.")] = MemoryLimits()
    max_replicas: Annotated[
        Annotated[int, Field(ge=0, le=MOST_REPLICAS)] | Literal["all"],
        Field(
            description="Maximum number of nodes that hold a whole Dataset; higher values are reduced to it. all: no "
            "limit.",
            json_schema_extra=replicas_schema("maxReplicas"),
        ),
    ] = "all"
    warm: Annotated[PolicyLimits, Field(description="Limits of warm.policy and warm.peers.")] = PolicyLimits()
    peers: Annotated[PeerLimits, Field(description="Limits on file exchange between nodes.")] = PeerLimits()
    bandwidth: Annotated[BandwidthLimits, Field(description="Limits of warm.bandwidthLimit.")] = BandwidthLimits()
    endpoints: Annotated[
        tuple[_ENDPOINT, ...] | None,
        Field(
            description="Allowed servers of s3:// sources, such as https://minio.storage:9000 or "
            "https://s3.*.amazonaws.com (* is one name between dots). Absent: all.",
            max_length=50,
        ),
    ] = None
    host_folders: Annotated[
        tuple[_FOLDER, ...] | None,
        Field(
            description="Allowed parent folders of file:// sources, within the folders that the chart grants. Absent: "
            "all of those.",
            max_length=50,
        ),
    ] = None
    allow_ambient_credentials: Annotated[
        bool,
        Field(
            description="Whether Datasets without credentials may use the nodes' credentials, if the chart grants "
            "them. False: requests are anonymous."
        ),
    ] = True
    quota: Annotated[QuotaLimits, Field(description="Limits on all Datasets of one namespace together.")] = (
        QuotaLimits()
    )
    tuning: Annotated[TuningLimits, Field(description="Limits of tuning.")] = TuningLimits()


class DatasetClass(Resource):
    """Limits for Datasets, which administrators set like StorageClasses and PriorityClasses."""

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
        """Return True if Datasets without a class get this one."""
        return self.metadata.annotations.get(names.ANNOTATION_DEFAULT_CLASS) == "true"
