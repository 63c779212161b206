"""Brings what was warmed into the page cache as well, once for each request."""

from functools import partial

from stoker_api.cache_memory import WarmedPages
from stoker_api.node_dataset import NodeDataset
from stoker_api.warm_paths import paths_digest
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.choosing import is_chosen_here, left_to_warm
from stoker_sidecar.fetcher.page_cache import PageCache, PageWish
from stoker_sidecar.fetcher.telemetry import Telemetry
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.path_selection import PathSelection
from stoker_sidecar.wire.fetcher_protocol import PAGED_BYTES

# Parts of what is chosen that are brought one after the other, each in the order of its inodes: a byte an inode each.
_MOST_PARTS = 8


class WarmingPages:
    """Asks for the files of one Dataset that are warm in the page cache; for one event loop."""

    def __init__(self, cache: PageCache, telemetry: Telemetry) -> None:
        self._cache = cache
        self._telemetry = telemetry
        self._asked: tuple[str, str, str] | None = None
        self._status: WarmedPages | None = None

    @property
    def status(self) -> WarmedPages | None:
        """How far it is; None where nobody asked, or what was asked for is not warm yet."""
        return self._status

    async def look(self, config: NodeDataset, version: CachedVersion) -> None:
        """Ask for what is warm by now, unless that was done for this request. Raises CacheDiskFailed."""
        request = (version.paths.folder.name, paths_digest(config.warm_paths), config.pages)
        if not config.pages:
            self._asked = self._status = None
            return
        if request == self._asked:
            return
        self._status = None
        if not _is_warm(config, version):
            return
        self._asked = request
        marks = await in_thread(_marks, version.chosen.selection, version.whole_files())
        total = version.chosen.here_bytes if version.chosen.selection is not None else version.warm_bytes
        self._status = WarmedPages(request=config.pages, bytes=total)
        count = partial(self._count, request)
        self._cache.want(
            PageWish(version.paths, marks, lambda: self._asked == request, count, "warm", partial(count, 0))
        )

    def _count(self, request: tuple[str, str, str], brought: int) -> None:
        self._telemetry.add(PAGED_BYTES, brought)
        if request == self._asked and self._status is not None:
            self._status = self._status.model_copy(update={"read_bytes": brought, "done": True})


def _is_warm(config: NodeDataset, version: CachedVersion) -> bool:
    """Tell whether all that will come is there: what is chosen, or what fits."""
    if version.complete or is_chosen_here(version, config.warm_paths):
        return True
    return config.eager and not left_to_warm(version, State.MISSING) and version.warm_files > 0


def _marks(selection: PathSelection | None, here: bytes) -> tuple[bytes, ...]:
    """Mark what is to be brought, a byte an inode: in the order of the paths, as far as some parts can say it."""
    if selection is None:
        return (here,)
    inodes = list(selection.in_order(here))
    step = max(1, -(-len(inodes) // _MOST_PARTS))
    return tuple(_marked(inodes[first : first + step], len(here)) for first in range(0, len(inodes), step))


def _marked(inodes: list[int], length: int) -> bytes:
    marks = bytearray(length)
    for ino in inodes:
        marks[ino] = 1
    return bytes(marks)
