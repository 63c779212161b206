"""Release: the operator's record on a pod that it releases, for `stoker why` and the demo."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import MOST_SECONDS, Model
from stoker_api.times import parse_time


class ReleaseNode(Model):
    """A node for the pod, and how warm it was at release."""

    name: str
    warm_bytes: int
    total_bytes: int


class ReleaseRecord(Model):
    """JSON value of the annotation stoker.dev/released."""

    reason: Annotated[str, Field(description="Released, MaxWaitPassed, or why its data is not warmed: Manual, Paused.")]
    message: str
    held_since: str
    released_at: str
    mode: str
    nodes: tuple[ReleaseNode, ...] = ()

    @property
    def held_seconds(self) -> float | None:
        """Hold time of the pod. None if a time is absent or impossible: the pod's owner can write the annotation."""
        since, until = parse_time(self.held_since), parse_time(self.released_at)
        return until - since if since and until and 0 <= until - since <= MOST_SECONDS else None
