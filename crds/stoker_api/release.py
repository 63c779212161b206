"""Release: what the operator writes on a pod when it lets it go, for `stoker why` and the demo."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import MOST_SECONDS, Model
from stoker_api.times import parse_time


class ReleaseNode(Model):
    """A node that the pod may go to, and its warmth then."""

    name: str
    warm_bytes: int
    total_bytes: int


class ReleaseRecord(Model):
    """JSON value of the annotation stoker.dev/released."""

    reason: Annotated[str, Field(description="Released, or MaxWaitPassed.")]
    message: str
    held_since: str
    released_at: str
    mode: str
    nodes: tuple[ReleaseNode, ...] = ()

    @property
    def held_seconds(self) -> float | None:
        """For how long the pod was held; None where its times are none, or cannot be: its owner may write them."""
        since, until = parse_time(self.held_since), parse_time(self.released_at)
        return until - since if since and until and 0 <= until - since <= MOST_SECONDS else None
