"""Makes readers wait for a source that fails temporarily, and records their failures."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.errors import AccessDenied, DeniedEarlier, NotYetConfigured, SidecarError, copy_of
from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.download.core.reader_patience import ReaderPatience
from stoker_sidecar.fetcher.download.core.refusals import DeniedObjects, RefusedFolders, is_of_an_object
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.version.manifest import Entry

_log = logging.getLogger(__name__)


@dataclass
class PatientReads:
    """The readers of one version. ``closed``: the version is being closed, so readers ask again."""

    version: CachedVersion
    context: DownloadContext
    closed: bool = False
    _refused: RefusedFolders = field(default_factory=RefusedFolders)
    _denied: DeniedObjects = field(default_factory=DeniedObjects)

    async def bring(self, entry: Entry, bring: Callable[..., Awaitable[None]]) -> None:
        """Call ``bring(ahead=...)`` until it works or the reader's time is over. Raises SidecarError.

        ``ahead``: True if readahead is allowed. It is False after a refusal of the source. An object that was just
        denied is not requested again.
        """
        settings = self.context.settings
        clock, ahead = settings.pipeline.clock, entry.parent not in self._refused
        patience = ReaderPatience(settings.patience, clock())
        if self._denied and (known := self._denied.fresh(entry.ino, clock())) is not None:
            raise self.failing(entry, copy_of(known))
        while not self.closed:
            try:
                return await bring(ahead=ahead)
            except SidecarError as error:
                shown = self._shown(entry.ino, error)
                pause = patience.pause(shown, clock(), settings.retry.uniform())
                if pause is None:
                    raise self.failing(entry, shown) from None
                self._note(entry, shown, waits=True)
            ahead = False
            await settings.retry.sleep(pause)
        raise self.ask_again()

    def failing(self, entry: Entry, error: SidecarError) -> SidecarError:
        """Note the error that a reader gets, and return it."""
        self._note(entry, error, waits=False)
        return error

    def ask_again(self) -> NotYetConfigured:
        """Return the error for a reader of a version that is being closed."""
        return NotYetConfigured(f"{self.version.manifest.info.digest[:12]} is being closed on this node: ask again")

    def came(self, ino: int) -> None:
        """Note that a file, or a piece of one, has arrived."""
        self._denied.forget(ino)
        if self._refused and (entry := self.version.manifest.entry(ino)) is not None:
            self._refused.landed(entry.parent, None)
        if self.context.failing_reads:
            self.context.failing_reads.worked(ino, self.context.settings.pipeline.clock())

    def failed(self, ino: int, error: SidecarError) -> None:
        """Learn that a fetch failed. Refused objects and their folders get no readahead."""
        if error.temporary or isinstance(error, DeniedEarlier):
            return
        if isinstance(error, AccessDenied):
            self._denied.note(ino, error, self.context.settings.pipeline.clock())
        if is_of_an_object(error) and self.version.states[ino] == State.MISSING:
            self.version.states[ino] = State.FAILED
        if (entry := self.version.manifest.entry(ino)) is not None:
            self._refused.landed(entry.parent, error)

    def renewed(self) -> None:
        """Note that the source or its credentials changed."""
        self._denied.clear()

    def _shown(self, ino: int, error: SidecarError) -> SidecarError:
        """Return the error for a reader. If its object was not requested now, but denied before, that error counts."""
        known = self._denied.error(ino) if isinstance(error, DeniedEarlier) else None
        return copy_of(known) if known is not None else error

    def _note(self, entry: Entry, error: SidecarError, *, waits: bool) -> None:
        if waits and isinstance(error, DeniedEarlier):  # the denials of other objects are noted
            return
        settings, path = self.context.settings, partial(self.version.manifest.path_of, entry)
        place = self.version.paths.folder.name, entry.ino
        now, wall = settings.pipeline.clock(), settings.now()
        new = self.context.failing_reads.failed(error, place, path, now, wall, waits=waits)
        if new is not None:  # once, not for each reader: the status has the rest
            verb = "wait" if new.temporary else "fail"
            _log.info("reads %s, such as of %s: %s", verb, new.path, new.message)
