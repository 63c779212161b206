"""A real Kubernetes on one machine, for the end-to-end stories and the demo."""

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import CommandFailedError, HarnessError, NoSlotError, NotReadyError, UsageError
from e2e.cluster.s3 import S3Server

__all__ = [
    "Cluster",
    "CommandFailedError",
    "HarnessError",
    "NoSlotError",
    "NotReadyError",
    "S3Server",
    "UsageError",
]
