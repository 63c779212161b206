"""Dataset: what training data is, where it comes from, and how warm it should be kept."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from stoker_api import names
from stoker_api.endpoint import ENDPOINT_HINT, ENDPOINT_PATTERN, REGION_PATTERN, checked_endpoint
from stoker_api.meta import (
    DURATION_RULE,
    Condition,
    Duration,
    Model,
    Name,
    PrinterColumn,
    Quantity,
    Resource,
    ShortMessage,
    cel_rule,
)

MOST_REPLICAS = 10_000  # nodes: twice what Kubernetes is made for
MOST_PRIORITY = 1000
MOST_NODE_ROWS = 50  # of status.nodes
_INT64 = {"format": "int64"}
_LABEL_VALUE = Annotated[str, Field(max_length=63)]
_LABEL_KEY = Annotated[str, Field(max_length=317)]  # a prefix of 253 characters, a slash, a name of 63
_PATTERN = Annotated[str, Field(min_length=1, max_length=256)]
_MOST_PATTERNS = 50


def replicas_schema(field: str) -> dict[str, JsonValue]:
    """Return what a structural schema says of ``field`` in place of the union of a number and ``all``."""
    rule = cel_rule(
        f"type(self) == int ? self >= 0 && self <= {MOST_REPLICAS} : self == 'all'",
        f"{field} must be 0 to {MOST_REPLICAS}, or 'all'",
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


class AddressingStyle(StrEnum):
    """How the bucket is put in an S3 URL."""

    AUTO = "Auto"
    PATH = "Path"
    VIRTUAL = "Virtual"


class Phase(StrEnum):
    """One word for ``kubectl get``; the conditions hold the detail."""

    PENDING = "Pending"
    LISTING = "Listing"
    WARMING = "Warming"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class MountMode(StrEnum):
    """How a node serves a tree: see docs/ARCHITECTURE.md."""

    NATIVE = "native"
    OVERLAY = "overlay"
    FUSE = "fuse"


class ObservePolicy(StrEnum):
    """Whether the nodes look at which files pods read."""

    AUTO = "Auto"  # where the node can, within its budget
    OFF = "Off"


class SecretReference(Model):
    """A Secret in the Dataset's own namespace."""

    name: Annotated[Name, Field(description="Name of a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")]


class Credentials(Model):
    """Who the sidecars are to the object store; at most one of the fields."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule(
                    "!(has(self.secretRef) && has(self.serviceAccount))",
                    "credentials takes secretRef or serviceAccount, not both",
                )
            ]
        }
    )
    secret_ref: Annotated[
        SecretReference | None,
        Field(
            description="Static keys: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, optionally AWS_SESSION_TOKEN and "
            "ca.crt."
        ),
    ] = None
    service_account: Annotated[
        Name | None,
        Field(
            description="Web identity: a ServiceAccount of this namespace annotated with eks.amazonaws.com/role-arn."
        ),
    ] = None


class Source(Model):
    """Where the bytes come from, as nodes are told it."""

    # Types alone: a node must be able to read every NodeCache, with entries older than a rule of DatasetSource too.
    uri: Annotated[str, Field(description="s3://bucket/prefix/ or file:///folder.")]
    endpoint: Annotated[str | None, Field(description="URL of an S3-compatible server. Absent: Amazon's.")] = None
    region: Annotated[str, Field(description="Region of the bucket.")] = "us-east-1"
    addressing_style: Annotated[
        AddressingStyle,
        Field(description="Auto: path style with an endpoint of your own, virtual-host style without."),
    ] = AddressingStyle.AUTO
    credentials: Annotated[
        Credentials | None,
        Field(description="Absent: the node's own role where it has one, else anonymous."),
    ] = None
    include: Annotated[
        tuple[str, ...], Field(description="Patterns that are kept; only the node that lists is told them.")
    ] = ()
    exclude: Annotated[
        tuple[str, ...], Field(description="Patterns that are left out; only the node that lists is told them.")
    ] = ()


class DatasetSource(Source):
    """Where the bytes come from."""

    uri: Annotated[
        str,
        Field(
            description="s3://bucket/prefix/ or file:///folder (a folder that every selected node sees, such as NFS).",
            max_length=1200,
            json_schema_extra={
                "x-kubernetes-validations": [
                    cel_rule(
                        "self.startsWith('s3://') || self.startsWith('file:///')",
                        "source.uri must be s3://bucket/prefix/ or file:///folder",
                        "'source.uri ' + self + ' is not supported: write s3://bucket/prefix/ or file:///folder'",
                    ),
                    cel_rule(
                        "!self.startsWith('s3://') || self.matches('^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$')",
                        "the bucket in source.uri must have 3 to 63 characters of a-z, 0-9, '.' and '-', "
                        "and begin and end with a letter or digit",
                    ),
                    cel_rule("!self.contains('/../') && !self.endsWith('/..')", "source.uri must not contain '..'"),
                ]
            },
        ),
    ]
    endpoint: Annotated[
        str | None,
        Field(
            description="URL of an S3-compatible server, such as https://minio.storage:9000. Default: Amazon's.",
            max_length=300,
            json_schema_extra={
                "x-kubernetes-validations": [
                    cel_rule(
                        f"self.matches('{ENDPOINT_PATTERN}')",
                        f"source.endpoint {ENDPOINT_HINT}",
                        f"'source.endpoint ' + self + ' {ENDPOINT_HINT}'",
                    )
                ]
            },
        ),
        AfterValidator(checked_endpoint),
    ] = None
    region: Annotated[str, Field(description="Region of the bucket.", pattern=REGION_PATTERN, max_length=63)] = (
        "us-east-1"
    )
    include: Annotated[
        tuple[_PATTERN, ...],
        Field(
            description="Patterns below the prefix that are kept: * stops at '/', ** does not. Empty: all.",
            max_length=_MOST_PATTERNS,
        ),
    ] = ()
    exclude: Annotated[
        tuple[_PATTERN, ...],
        Field(description="Patterns that are left out; they win over include.", max_length=_MOST_PATTERNS),
    ] = ()

    def plain(self) -> Source:
        """Return what nodes are told."""
        return Source.model_construct(**{name: getattr(self, name) for name in Source.model_fields})


class Cache(Model):
    """On which nodes, and how much."""

    replicas: Annotated[
        Annotated[int, Field(ge=0, le=MOST_REPLICAS)] | Literal["all"],
        Field(
            description="Nodes that hold the dataset whole, 10000 at most; 0: only where pods land; all: every "
            "selected node.",
            json_schema_extra=replicas_schema("cache.replicas"),
        ),
    ] = 1
    node_selector: Annotated[
        dict[_LABEL_KEY, _LABEL_VALUE],
        Field(description="Labels that a node must have to hold this dataset.", max_length=32),
    ] = Field(default_factory=dict)
    quota: Annotated[
        Quantity | None,
        Field(description="Bytes per node. A larger dataset keeps what fits, without churn; the rest is read through."),
    ] = None
    pinned: Annotated[bool, Field(description="Never dropped from a node while idle.")] = False


class Warm(Model):
    """When and how fast bytes are fetched."""

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
            "Off: they do not."
        ),
    ] = ObservePolicy.AUTO


class SkippedKeys(Model):
    """Keys of the source that cannot be files; docs/SEMANTICS.md lists the reasons."""

    reason: str
    count: Annotated[int, Field(json_schema_extra=_INT64)]
    example: str = ""


class DatasetNode(Model):
    """How warm one node is."""

    name: Annotated[str, Field(description="The node.")]
    phase: Annotated[str, Field(description="What it does for the dataset, as in NodeCache.")] = ""
    version: Annotated[str, Field(description="Digest of the version that the figures are about.")] = ""
    warm_files: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    bytes_per_second: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    eta: Annotated[str, Field(description="Time left, such as 1m20s; empty when unknown or done.")] = ""
    mode: Annotated[str, Field(description="How pods on the node would read: native, overlay or fuse.")] = ""
    last_error: Annotated[ShortMessage, Field(description="What went wrong there last.")] = ""


class DatasetStatus(Model):
    """What has become of it, as the nodes report it."""

    phase: Phase | None = None
    class_name: Annotated[str, Field(description="The DatasetClass that it has; empty: none applies.")] = ""
    charged_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="What counts of it to its class's quota, over all nodes.")
    ] = 0
    namespace_quota_bytes: Annotated[
        int | None,
        Field(
            json_schema_extra=_INT64,
            description="What the namespace's Datasets of this class may hold together. Absent: no limit.",
        ),
    ] = None
    node_quota_bytes: Annotated[
        int | None, Field(json_schema_extra=_INT64, description="The same on each node. Absent: no limit.")
    ] = None
    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    version: Annotated[str, Field(description="Digest (sha256) of the version that new pods get.")] = ""
    version_short: Annotated[str, Field(description="First 12 characters of the version.")] = ""
    versions_in_use: Annotated[tuple[str, ...], Field(description="Older versions that running pods still read.")] = ()
    listed_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    listing_id: Annotated[str, Field(description="The listing that was asked for last.")] = ""
    listing_node: Annotated[str, Field(description="The node that was asked to list.")] = ""
    listing_source: Annotated[
        str, Field(description="Fingerprint of what of the spec selected bytes when listingId was asked for.")
    ] = ""
    files: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    bytes: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    total: Annotated[str, Field(description="bytes, for people.")] = ""
    wanted_bytes: Annotated[
        int,
        Field(
            json_schema_extra=_INT64, description="What all nodes that should hold the version would hold, together."
        ),
    ] = 0
    cached_bytes: Annotated[int, Field(json_schema_extra=_INT64, description="What of that is there.")] = 0
    cached: Annotated[str, Field(description="cachedBytes, for people.")] = ""
    cached_percent: Annotated[str, Field(description="Warm share over the wanted nodes.")] = ""
    warm_nodes: Annotated[str, Field(description="Nodes that hold it whole / nodes that should.")] = ""
    bytes_per_second: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    speed: str = ""
    eta: str = ""
    skipped: Annotated[tuple[SkippedKeys, ...], Field(description="Keys that cannot be files, counted by reason.")] = ()
    node_counts: Annotated[
        dict[str, int], Field(description="Nodes that have it or should, by what they do; all of them.")
    ] = Field(default_factory=dict)
    nodes: Annotated[
        tuple[DatasetNode, ...],
        Field(
            description=f"The {MOST_NODE_ROWS} nodes that need attention most: failed ones first, then those on the "
            "way, then warm ones.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()


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
    )

    spec: DatasetSpec
    status: DatasetStatus = DatasetStatus()
