"""Starts what readers of one version will ask for next, as fetcher.core.readahead and fetcher.core.readahead guess it from their misses."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.core.lanes import Lane
from stoker_sidecar.fetcher.core.readahead import Scatter, weight
from stoker_sidecar.fetcher.download.pipeline import Pipeline
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.spans import chunk_count, is_whole

Start = Callable[[Entry, int, Lane], "asyncio.Task[None] | None"]


@dataclass
class Prefetcher:
    """``start``: a piece, unless it is here or may not stay; ``on_its_way``: whether a small file is, by inode."""

    version: CachedVersion
    pipeline: Pipeline
    start: Start
    on_its_way: Callable[[int], bool]
    _scatter: Scatter = field(init=False)

    def __post_init__(self) -> None:
        info = self.version.manifest.info
        self._scatter = Scatter(weight(info.bytes, info.files), self.pipeline.bounds.readahead_bytes // 2)

    def missed(self, entry: Entry, chunks: range) -> None:
        """A reader asked for these pieces of a file that was not whole here."""
        if not is_whole(entry.size):
            for chunk in self.pipeline.readahead.chunks(entry.ino, chunks, chunk_count(entry.size)):
                self.start(entry, chunk, Lane.READAHEAD)
        elif (most := self.pipeline.readahead.files(entry.parent, entry.ino)) is not None:
            self._go_on(entry, most)
        else:
            self._sweep(entry)

    def _go_on(self, entry: Entry, most: int) -> None:
        """The next missing small files of the same folder that may stay."""
        ino = entry.ino
        for _ in range(most):
            following = self.version.manifest.entry(ino) if (ino := self.version.missing(ino)) > 0 else None
            if following is None or following.parent != entry.parent or not is_whole(following.size):
                return
            self.start(following, 0, Lane.READAHEAD)
            self.pipeline.readahead.fetched(entry.parent, ino)

    def _sweep(self, entry: Entry) -> None:
        """Other missing small files of the same folder, as many as its readers' misses warrant."""
        version = self.version
        size = version.manifest.info.bytes - version.warm_bytes - version.reserved_bytes
        self._scatter.missed(weight(entry.size), weight(size, version.manifest.info.files - version.warm_files))
        for before in (entry.ino, entry.parent):  # behind it, then from the folder's start: inodes are depth first
            ino = before
            while (other := self._next(ino, entry.parent)) and weight(other.size) <= self._scatter.room:
                task = self.start(other, 0, Lane.READAHEAD)
                if task is None:
                    return  # no room to keep it
                self._scatter.started(weight(other.size))
                task.add_done_callback(partial(self._landed, weight(other.size)))
                ino = other.ino

    def _next(self, ino: int, folder: int) -> Entry | None:
        """The next small file of the folder behind ``ino`` that is missing and not on its way."""
        while (ino := self.version.missing(ino)) > 0 and self.on_its_way(ino):
            pass
        entry = self.version.manifest.entry(ino) if ino > 0 else None
        return entry if entry is not None and entry.parent == folder and is_whole(entry.size) else None

    def _landed(self, size: int, task: "asyncio.Task[None]") -> None:
        self._scatter.landed(size, here=not task.cancelled() and task.exception() is None)
