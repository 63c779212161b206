"""The reader, the version and the observed accesses of one batch: plain values."""

from collections.abc import Sequence
from typing import NamedTuple

from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.access_protocol import AccessRow


class ObservedTree(NamedTuple):
    """The subject of a batch: a version, and the source that observed it."""

    uid: str
    digest: str
    source: EvidenceSource

    @property
    def version(self) -> VersionKey:
        """The version without the source."""
        return self.uid, self.digest


class ReaderKey(NamedTuple):
    """A reader: a pod by its UID; empty: all pods of one version together."""

    pod_uid: str
    version: VersionKey | None = None


class ReaderBatch(NamedTuple):
    """One reader's observed accesses from ``since`` to ``until``, in seconds of the monotonic clock.

    ``opens`` is the number of observed opens, a ``share`` of all. ``reads`` counts all reads of a FUSE server.
    ``files`` is the share of the version's files that are watched. ``rows`` are the accesses with a row in the batch,
    in order.
    """

    since: float
    until: float
    opens: float
    share: float
    reads: float
    files: float
    rows: Sequence[AccessRow]
