"""A node's status of one Dataset: its versions, progress, listing and errors."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta
from pydantic import Field

from stoker_api.datasets.cache_memory import PinnedMemory, WarmedPages
from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_status import SkippedKeys
from stoker_api.datasets.warm_paths import WarmPathsStatus
from stoker_api.meta import (
    DigestText,
    Model,
    NameText,
    ShortMessage,
)
from stoker_api.rows import RowStruct

_INT64 = {"format": "int64"}
MOST_VERSIONS = 1000  # of one Dataset
_MOST_REASONS = 64


class NodePhase(StrEnum):
    """A node's phase for one dataset."""

    PENDING = "Pending"  # no version known yet
    LISTING = "Listing"
    WARMING = "Warming"
    WARM = "Warm"  # every byte of the version is here and verified
    PATHS_WARM = "PathsWarm"  # every byte of the files of warm.paths is here; the rest is fetched when it is read
    FULL = "Full"  # the files that fit the quota are here
    IDLE = "Idle"  # on demand, manual or paused: readable, not warming
    FAILED = "Failed"
    CLEANING = "Cleaning"


class NodeError(Model):
    """Why a Dataset fails on a node."""

    reason: Annotated[
        NameText, Field(description="One CamelCase word; docs/operations/troubleshooting.md explains each.")
    ]
    message: Annotated[ShortMessage, Field(description="The error in a sentence.")]
    temporary: Annotated[bool, Field(description="True: the node keeps retrying.")] = True


class FailingReads(Model):
    """Failing or waiting reads of pods at a node."""

    reason: Annotated[NameText, Field(description="Reason, as in errors.")]
    path: Annotated[ShortMessage, Field(description="A file whose read failed.")] = ""
    message: Annotated[ShortMessage, Field(description="Why it failed, in a sentence.")] = ""
    temporary: Annotated[bool, Field(description="True: reads wait, and fail after two minutes.")] = False
    since: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    version: Annotated[DigestText, Field(description="The version that pods read.")] = ""

    def sentence(self, reads: str) -> str:
        """Return why they fail. ``reads`` is the subject, such as "reads of pods"."""
        verb = "wait or fail" if self.temporary else "fail"
        since = f" since {self.since}" if self.since else ""
        return f"{reads} {verb}{since}, such as of {self.path}: {self.message}"


class ListingResult(Model):
    """The result of a listing."""

    id: Annotated[NameText, Field(description="The listingId of the request.")]
    version: Annotated[DigestText, Field(description="Digest; empty when the listing failed.")] = ""
    files: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    skipped: Annotated[tuple[SkippedKeys, ...], Field(max_length=_MOST_REASONS)] = ()
    error: NodeError | None = None
    finished_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None


class OlderVersionStatus(Model):
    """A node's progress with an older version."""

    version: DigestText
    phase: NodePhase = NodePhase.PENDING
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    error: NodeError | None = None


class NodeDatasetStatus(RowStruct, frozen=True, kw_only=True):
    """The state of one dataset on this node."""

    namespace: NameText
    name: NameText
    uid: NameText
    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    phase: NodePhase = NodePhase.PENDING
    version: Annotated[DigestText, Field(description="The version of the figures below.")] = ""
    files: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_files: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    fetched_files: Annotated[
        int,
        Field(
            json_schema_extra=_INT64, description="Files fetched from the source for this version. The rest was linked."
        ),
    ] = 0
    source_bytes: Annotated[
        int,
        Field(json_schema_extra=_INT64, description="Bytes from the source since its fetcher started."),
    ] = 0
    peer_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Bytes from other nodes since its fetcher started.")
    ] = 0
    bytes_per_second: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    best_source_bytes_per_second: Annotated[
        int | None,
        Field(
            json_schema_extra=_INT64,
            description="Best rate from the source in warm-ups without a limit, cap, SlowDown or sending peers, to "
            "one digit. Absent: too few samples.",
        ),
    ] = None
    source_milliseconds: Annotated[
        int | None,
        Field(
            json_schema_extra=_INT64,
            description="Shortest request for a piece since its fetcher started, to one digit. Absent: none yet.",
        ),
    ] = None
    eta_seconds: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    mode: Annotated[MountMode | None, Field(description="Mount mode of a new pod.")] = None
    listing: ListingResult | None = None
    error: NodeError | None = None
    failing_reads: Annotated[
        FailingReads | None,
        Field(description="Errors of its pods' reads. Absent: none recently."),
    ] = None
    retained: Annotated[
        tuple[NameText, ...],
        Field(
            description="Other versions on this disk. All versions while `version` is not open.",
            max_length=MOST_VERSIONS,
        ),
        Meta(max_length=MOST_VERSIONS),
    ] = ()
    older: Annotated[
        tuple[OlderVersionStatus, ...],
        Field(description="Other versions: those in the plan, and other open ones.", max_length=MOST_VERSIONS),
        Meta(max_length=MOST_VERSIONS),
    ] = ()
    warm_paths: Annotated[
        WarmPathsStatus | None,
        Field(description="Progress of `warm.paths` or `warm.list`. Absent: neither is set, or unknown yet."),
    ] = None
    pages: Annotated[
        WarmedPages | None,
        Field(description="Progress of `warm.pages`. Absent: not requested, or the Dataset is not warm yet."),
    ] = None
    memory: Annotated[
        PinnedMemory | None, Field(description="Memory in use for `cache.memory`. Absent: not requested.")
    ] = None
