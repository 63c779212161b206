"""Who reads, of what, and what was seen of it in one batch: plain values."""

from collections.abc import Sequence
from typing import NamedTuple

from stoker_api.node_workload import EvidenceSource
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.access_protocol import AccessRow


class ObservedTree(NamedTuple):
    """What a batch is about: a version, and what saw it."""

    uid: str
    digest: str
    source: EvidenceSource

    @property
    def version(self) -> VersionKey:
        """The version alone."""
        return self.uid, self.digest


class ReaderKey(NamedTuple):
    """Who reads: a pod by its UID; where it is empty, all pods of one version together."""

    pod_uid: str
    version: VersionKey | None = None


class ReaderBatch(NamedTuple):
    """What one reader was seen to do from ``since`` to ``until``, seconds of the monotonic clock.

    ``opens``: so many files were seen to be opened, which are ``share`` of all. ``reads``: of a FUSE server, all.
    ``files``: the share of the version's files that is watched at all. ``rows``: the accesses that the batch has a row
    for, in order.
    """

    since: float
    until: float
    opens: float
    share: float
    reads: float
    files: float
    rows: Sequence[AccessRow]
