"""Settings and state that the downloads of one Dataset share."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stoker_sidecar.fetcher.download.core.failing_reads import FailingReadTimer
from stoker_sidecar.fetcher.download.core.peer_scores import PeerScores
from stoker_sidecar.fetcher.download.core.reader_patience import PATIENCE
from stoker_sidecar.fetcher.ondisk.telemetry import Telemetry
from stoker_sidecar.fetcher.ondisk.version_tuning import DatasetTuning
from stoker_sidecar.fetcher.sources.piece_sources import StorePieceSource
from stoker_sidecar.fetcher.sources.pipeline import Pipeline
from stoker_sidecar.store.base import Retry

# Half the cores, and few of many: pods compute on them. Other work of this process needs its threads, too.
_PACKERS = min(4, max(1, (os.cpu_count() or 1) // 2))


_GIVEN = 32  # files and pieces, of all datasets


@dataclass(frozen=True)
class DownloadSettings:
    """Settings of downloads.

    ``transient_limit``: bytes of files that are read through and not kept, per version. ``peers``: the folder in which
    the agent leaves this node's peer certificate; None: peers are not asked. ``ask_peers``: peers are asked for files,
    too. ``last_files``: the last few files of an almost complete version are fetched without a read. ``packers``: limit
    of compressed copies that are made at a time. ``given``: limit of transfers from peers at a time. ``patience``:
    seconds that a reader waits for a source that fails temporarily. ``now``: seconds since 1970.
    """

    pipeline: Pipeline
    retry: Retry
    transient_limit: int
    peers: Path | None = None
    ask_peers: bool = True
    last_files: bool = True
    packers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_PACKERS))
    given: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_GIVEN))
    patience: float = PATIENCE
    now: Callable[[], float] = time.time


@dataclass(frozen=True)
class DownloadContext:
    """State that the versions of one dataset share.

    ``changed`` is called when a version has become whole, or has lost a file. ``tuning``: how files are treated.
    ``givers``: the record of the peers. ``checksums_prove``: returns True if a CRC is enough proof of their bytes.
    ``failing_reads``: reads that wait for a failing source, or fail.
    """

    source: StorePieceSource
    telemetry: Telemetry
    settings: DownloadSettings
    changed: Callable[[], None]
    givers: PeerScores
    tuning: DatasetTuning = field(default_factory=DatasetTuning)
    checksums_prove: Callable[[], bool] = lambda: False
    failing_reads: FailingReadTimer = field(default_factory=FailingReadTimer)
