"""What fetching needs from the node and the dataset."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.core.room import Room
from stoker_sidecar.fetcher.download.pipeline import Pipeline
from stoker_sidecar.fetcher.download.policy import PolicyFactory
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.worker.pieces import Arrived, PieceSource


@dataclass(frozen=True)
class Surroundings:
    """``sources`` are asked in turn, each time anew: they change with the Dataset's credentials."""

    sources: Callable[[], Sequence[PieceSource]]
    pipeline: Pipeline
    room: Callable[[], Room]
    arrived: Arrived
    ahead: Arrived  # whole pieces that came before any reader asked for them
    completed: Callable[[], None]  # the last missing file is here
    lost: Callable[[], None]  # a file that was here is missing or damaged
    failed: Callable[[SidecarError], None]  # a piece could not be fetched
    transient_folder: Callable[[], Path]  # where files lie that are read through and not kept
    retry: Retry
    transient_limit: int  # bytes of files that are read through and not kept, per version
    policy: PolicyFactory
