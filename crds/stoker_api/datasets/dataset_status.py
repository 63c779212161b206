"""A Dataset's state, as its nodes report it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from stoker_api.datasets.warm_paths import WarmPathsStatus
from stoker_api.meta import Condition, Model, NameText, ShortMessage
from stoker_api.profiles.tuning import NodeTuning

MOST_NODE_ROWS = 50  # of status.nodes
UNREADABLE = "Unreadable"  # reason in SkippedKeys: unreadable folders of file:// sources
_INT64 = {"format": "int64"}


class Phase(StrEnum):
    """One word for ``kubectl get``. The conditions hold the detail."""

    PENDING = "Pending"
    LISTING = "Listing"
    WARMING = "Warming"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class ShownState(StrEnum):
    """A more precise word than the phase, for people. An earlier release refuses a Dataset with an unknown phase."""

    FULL = "Full"
    PAUSED = "Paused"


class SkippedKeys(Model):
    """Keys of the source that cannot be files. docs/reference/semantics.md lists the reasons."""

    reason: NameText
    count: Annotated[int, Field(json_schema_extra=_INT64)]
    example: ShortMessage = ""


def skipped_sentence(skipped: Sequence[SkippedKeys]) -> str:
    """Write ``; 3 keys cannot be files and are left out: 2 EmptySegment (such as "a//b"), ...``, or nothing."""
    names, unreadable = [row for row in skipped if row.reason != UNREADABLE], unreadable_sentence(skipped)
    parts = [f"{row.count:,} {row.reason}" + (f' (such as "{row.example}")' if row.example else "") for row in names]
    count = sum(row.count for row in names)
    head = "1 key cannot be a file and is" if count == 1 else f"{count:,} keys cannot be files and are"
    said = f"{head} left out: {', '.join(parts)}"
    return "".join(f"; {sentence}" for sentence in (said if names else "", unreadable) if sentence)


def unreadable_sentence(skipped: Sequence[SkippedKeys]) -> str:
    """Write ``2 folders or files cannot be listed and are left out, such as "a/b/": ...``, or nothing."""
    row = next((row for row in skipped if row.reason == UNREADABLE), None)
    if row is None:
        return ""
    head = "1 folder or file" if row.count == 1 else f"{row.count:,} folders or files"
    counted = f"{head} cannot be listed and {'is' if row.count == 1 else 'are'}"
    return f'{counted} left out, such as "{row.example}": grant read access, or name them in source.exclude'


class DatasetNode(Model):
    """How warm one node is."""

    name: Annotated[str, Field(description="The node.")]
    phase: Annotated[str, Field(description="The node's phase for the dataset, as in NodeCache.")] = ""
    version: Annotated[str, Field(description="Digest of the version of these figures.")] = ""
    warm_files: Annotated[
        int,
        Field(
            json_schema_extra=_INT64,
            description="Files on the node. With `warm.paths` or `warm.list`, only files that they select.",
        ),
    ] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    bytes_per_second: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    eta: Annotated[str, Field(description="Time left, such as 1m20s. Empty: unknown or done.")] = ""
    mode: Annotated[str, Field(description="Mount mode for pods on the node: native, overlay or fuse.")] = ""
    last_error: Annotated[ShortMessage, Field(description="The node's last error.")] = ""


class WarmForecast(Model):
    """Remaining work of a warm-up. docs/guides/origins.md has the formula."""

    origin_bytes: Annotated[int, Field(json_schema_extra=_INT64, description="Bytes from the source.")] = 0
    origin_requests: Annotated[int, Field(json_schema_extra=_INT64, description="Maximum number of GETs.")] = 0
    seconds: Annotated[
        int | None,
        Field(json_schema_extra=_INT64, description="Estimated time at the known rates. Absent: no rate is known."),
    ] = None
    cost: Annotated[str, Field(description="Cost at the administrator's prices. Empty: no prices are set.")] = ""
    message: Annotated[ShortMessage, Field(description="The forecast in a sentence.")] = ""


class DatasetStatus(Model):
    """The Dataset's state, as its nodes report it."""

    phase: Phase | None = None
    state: Annotated[
        str | None,
        Field(
            description="Replaces the phase in tables. Full: nodes hold the files that fit, and the rest is read "
            "through. Paused: warming is paused. Absent: the phase applies."
        ),
    ] = None
    class_name: Annotated[str, Field(description="The DatasetClass in force. Empty: none applies.")] = ""
    charged_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Bytes that count toward its class's quota, over all nodes.")
    ] = 0
    namespace_quota_bytes: Annotated[
        int | None,
        Field(
            json_schema_extra=_INT64,
            description="Maximum bytes of all Datasets of this class in the namespace. Absent: no limit.",
        ),
    ] = None
    node_quota_bytes: Annotated[
        int | None,
        Field(json_schema_extra=_INT64, description="Maximum of namespaceQuotaBytes on each node. Absent: no limit."),
    ] = None
    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    tuning: Annotated[
        NodeTuning | None,
        Field(description="Tuning that nodes get unless a TrainingJob overrides it. Absent: none yet."),
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    version: Annotated[str, Field(description="Digest (sha256) of the version that new pods get.")] = ""
    version_short: Annotated[str, Field(description="First 12 characters of the version.")] = ""
    versions_in_use: Annotated[tuple[str, ...], Field(description="Older versions that running pods read.")] = ()
    listed_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    listing_id: Annotated[str, Field(description="ID of the last listing request.")] = ""
    listing_node: Annotated[str, Field(description="The node that got the listing request.")] = ""
    listing_source: Annotated[
        str, Field(description="Fingerprint of the spec's file selection at the time of listingId.")
    ] = ""
    files: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    bytes: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    total: Annotated[str, Field(description="bytes in readable form.")] = ""
    warm_paths: Annotated[
        WarmPathsStatus | None,
        Field(
            description="Files that `warm.paths` or `warm.list` selects, and how many the coldest node has. Cached and "
            "wanted figures then cover only these files. Absent: all files are selected, or unknown yet."
        ),
    ] = None
    pages_request: Annotated[str, Field(description="The `stoker warm` request of the condition PagesWarm.")] = ""
    wanted_bytes: Annotated[
        int,
        Field(
            json_schema_extra=_INT64,
            description="Bytes that all nodes of the version hold together when they are warm.",
        ),
    ] = 0
    cached_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Part of wantedBytes that nodes have.")
    ] = 0
    cached: Annotated[str, Field(description="cachedBytes in readable form, such as 388.5 MiB on 2 nodes.")] = ""
    cached_percent: Annotated[str, Field(description="Warm share over the wanted nodes.")] = ""
    warm_nodes: Annotated[
        str,
        Field(description="Warm nodes / wanted nodes. (+1): one more node is warm without need."),
    ] = ""
    forecast: Annotated[
        WarmForecast | None, Field(description="Remaining warm-up. Absent: none, or not listed yet.")
    ] = None
    warm_by: Annotated[
        str | None, Field(json_schema_extra={"format": "date-time"}, description="Due time that `warm.deadline` gives.")
    ] = None
    share_of_nodes: Annotated[
        int | None,
        Field(
            json_schema_extra=_INT64,
            description="Number of nodes for a percentage in cache.replicas. It stays constant while few nodes come "
            "and go. Absent: cache.replicas is no percentage.",
        ),
    ] = None
    bytes_per_second: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    speed: str = ""
    eta: str = ""
    skipped: Annotated[tuple[SkippedKeys, ...], Field(description="Keys that cannot be files, counted by reason.")] = ()
    node_counts: Annotated[
        dict[str, int],
        Field(description="Number of all nodes that have or should have it, by phase."),
    ] = Field(default_factory=dict)
    nodes: Annotated[
        tuple[DatasetNode, ...],
        Field(
            description=f"The {MOST_NODE_ROWS} nodes that need attention most: failed ones first, then cold ones, "
            "then warm ones.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()

    @property
    def shown_phase(self) -> str:
        """The word for people. Empty until the operator has processed the Dataset."""
        return self.state or (self.phase.value if self.phase is not None else "")
