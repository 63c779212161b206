"""Release: what the operator writes on a pod when it lets it go, for `stoker why` and the demo."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model


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
