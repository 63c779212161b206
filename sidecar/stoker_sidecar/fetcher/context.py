"""What all datasets of the node share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from stoker_sidecar.fetcher.download.pipeline import Pipeline
from stoker_sidecar.fetcher.download.policy import PolicyFactory
from stoker_sidecar.fetcher.space.folders import Folders
from stoker_sidecar.fetcher.telemetry import Notices
from stoker_sidecar.store.core.backoff import Backoff
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.worker.pieces import PieceFetcher
from stoker_sidecar.worker.store_handle import OpenStore


class House(Protocol):
    """What a dataset asks of the node for the sake of its own bytes."""

    async def make_room(self, uid: str, paths: VersionPaths, need: int) -> None:
        """Drop idle versions beside ``paths`` so that ``need`` more bytes fit; enough, or none."""

    def promised(self, uid: str, paths: VersionPaths) -> int:
        """Bytes that other datasets than ``uid`` are still going to fetch onto the folder of ``paths``."""

    def announce(self) -> None:
        """A version became whole: pods wait for their native mount, so the agent is told now."""

    async def suspect(self) -> None:
        """A folder answered with an error: look at all of them now, and let datasets leave those that failed."""


@dataclass(frozen=True)
class NodeContext:
    """``slots``: uid -> requests for warm-up in flight; ``spare``: a folder in memory for bytes that no disk takes."""

    folders: Folders
    house: House
    notices: Notices
    open_store: OpenStore
    fetcher: PieceFetcher
    pipeline: Pipeline
    slots: Callable[[str], int]
    retry: Retry
    backoff: Backoff
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]
    transient_limit: int
    policy: PolicyFactory
