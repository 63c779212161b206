"""What has become of a Dataset, as its nodes report it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from stoker_api.meta import Condition, Model, ShortMessage
from stoker_api.tuning import NodeTuning
from stoker_api.warm_paths import WarmPathsStatus

MOST_NODE_ROWS = 50  # of status.nodes
_INT64 = {"format": "int64"}


class Phase(StrEnum):
    """One word for ``kubectl get``; the conditions hold the detail."""

    PENDING = "Pending"
    LISTING = "Listing"
    WARMING = "Warming"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    TERMINATING = "Terminating"


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
    warm_files: Annotated[
        int,
        Field(
            json_schema_extra=_INT64,
            description="What is there; of what `warm.paths` or `warm.list` names, where there is one.",
        ),
    ] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    bytes_per_second: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    eta: Annotated[str, Field(description="Time left, such as 1m20s; empty when unknown or done.")] = ""
    mode: Annotated[str, Field(description="How pods on the node would read: native, overlay or fuse.")] = ""
    last_error: Annotated[ShortMessage, Field(description="What went wrong there last.")] = ""


class WarmForecast(Model):
    """What is left to do of a warm-up, before it is done; docs/ORIGINS.md has the formula."""

    origin_bytes: Annotated[int, Field(json_schema_extra=_INT64, description="That come from the source.")] = 0
    origin_requests: Annotated[int, Field(json_schema_extra=_INT64, description="GETs, at the most.")] = 0
    seconds: Annotated[
        int | None, Field(json_schema_extra=_INT64, description="At the rates that are known. Absent: none is.")
    ] = None
    cost: Annotated[str, Field(description="At the administrator's prices; empty: there are none.")] = ""
    message: Annotated[ShortMessage, Field(description="All of it, in a sentence.")] = ""


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
    tuning: Annotated[
        NodeTuning | None,
        Field(
            description="What nodes are told of its tuning, where no TrainingJob says otherwise; absent: nothing yet."
        ),
    ] = None
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
    warm_paths: Annotated[
        WarmPathsStatus | None,
        Field(
            description="What `warm.paths` or `warm.list` names, and what of that is on the node that has least of it; "
            "what is cached and wanted is about these files then. Absent: all files are meant, or it is not known yet."
        ),
    ] = None
    pages_request: Annotated[str, Field(description="The `stoker warm` that the condition PagesWarm is about.")] = ""
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
    forecast: Annotated[
        WarmForecast | None, Field(description="What is left of warming it. Absent: nothing, or it is not listed yet.")
    ] = None
    warm_by: Annotated[
        str | None, Field(json_schema_extra={"format": "date-time"}, description="What `warm.deadline` comes to.")
    ] = None
    share_of_nodes: Annotated[
        int | None,
        Field(
            json_schema_extra=_INT64,
            description="How many nodes a percentage in cache.replicas came to; it stays while few nodes come and go. "
            "Absent: it is no percentage.",
        ),
    ] = None
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
