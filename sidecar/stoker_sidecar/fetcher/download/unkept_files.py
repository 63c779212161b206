"""Files of a version that found no room: when they are tried again, and when others make way for them."""

from dataclasses import dataclass

from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.context import DownloadContext
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.fetcher.space.making_way import make_way

# Seconds until files that did not fit are tried again: other datasets may have left, or files that matter less.
_TRY_AGAIN, _AT_ONCE = 60.0, 0.01


@dataclass
class UnkeptFiles:
    """Those of one version."""

    version: CachedVersion
    space: VersionSpace
    context: DownloadContext
    _looked: tuple[VersionTuning, float] | None = None  # when way was made last, and under which rules

    @property
    def waiting(self) -> bool:
        """Whether files that are to be cached did not fit."""
        version, tuning = self.version, self._tuning
        if not tuning.leaves_out:
            return version.count(State.UNKEPT) > 0
        return version.are(State.UNKEPT, tuning.cached(version.manifest.last_ino))

    @property
    def try_again(self) -> float | None:
        """Seconds until files that found no room should be tried again; None: when something changes."""
        config = self.space.budget.config
        if config.eager or config.paused:
            return self._until_way() if self.waiting and not config.paused else None
        return _TRY_AGAIN if len(self._tuning.keeps) > 1 else None

    async def make_way(self) -> None:
        """Have files that matter less make way for those that found no room: at once under new rules, else in a while.

        Raises CacheError.
        """
        if self.waiting and not self.space.budget.config.paused and self._until_way() < _TRY_AGAIN:
            self._looked = self._tuning, self.context.settings.pipeline.clock()
            await make_way(self.version, self._tuning, self.space)

    @property
    def _tuning(self) -> VersionTuning:
        return self.context.tuning.of(self.version.paths.folder.name)

    def _until_way(self) -> float:
        """Return the seconds until way may be made; where all files matter alike, those until room may be found."""
        if len(self._tuning.keeps) == 1:
            return _TRY_AGAIN
        tuning, looked = self._looked or (None, 0.0)
        since = self.context.settings.pipeline.clock() - looked
        return _AT_ONCE if tuning is not self._tuning or since >= _TRY_AGAIN - 1 else _TRY_AGAIN
