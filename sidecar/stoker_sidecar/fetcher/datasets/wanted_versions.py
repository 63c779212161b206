"""The versions of one dataset that the plan wants on this disk: opened, reported, and deleted once unwanted."""

from collections.abc import Iterable

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.datasets.dataset_listing import DatasetListing
from stoker_sidecar.fetcher.datasets.node_context import NodeContext
from stoker_sidecar.fetcher.datasets.versions import OpenVersions
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.space.budget import SpaceBudget
from stoker_sidecar.threads import in_thread


class VersionErrors:
    """The last error of each version of one dataset. ``older``: of all but the current one, by digest."""

    def __init__(self, budget: SpaceBudget) -> None:
        self.current: SidecarError | None = None
        self.older: dict[str, SidecarError] = {}
        self._budget = budget

    def note(self, digest: str, error: SidecarError | None) -> None:
        """Record the error of a version, or its success."""
        if digest == self._budget.config.version:
            self.current = error
        elif error is None:
            self.older.pop(digest, None)
        else:
            self.older[digest] = error


class WantedVersions:
    """Opens, reports and deletes versions by the plan in ``budget.config``."""

    def __init__(
        self,
        node: NodeContext,
        budget: SpaceBudget,
        versions: OpenVersions,
        listing: DatasetListing,
        errors: VersionErrors,
    ) -> None:
        self._node = node
        self._budget = budget
        self._versions = versions
        self._listing = listing
        self._errors = errors

    @property
    def retained(self) -> tuple[str, ...]:
        """Other versions on this disk; until the current one is open, all that are there."""
        config, folders = self._budget.config, self._node.folders
        if config.version not in self._versions.fetchings:
            return tuple(folders.digests(config.uid))
        # After a restart, retained versions are on the disk but closed. The operator drops versions that no node
        # reports.
        kept = (digest for digest in config.retain if folders.find(config.uid, digest))
        return tuple(sorted({*self._versions.fetchings, *kept} - {config.version}))

    @property
    def others(self) -> tuple[str, ...]:
        """Versions besides the current one whose progress is reported: the requested ones, and all open ones."""
        config = self._budget.config
        asked = (one.version for one in config.older)
        return tuple(dict.fromkeys((*asked, *sorted(self._versions.fetchings.keys() - {config.version}))))

    async def open(self, digest: str) -> Fetching:
        """Open a version that is on this disk, or that this node was given and can get. Raises SidecarError."""
        config = self._budget.config
        hosts = {older.version: older.manifest_hosts for older in config.older}
        hosts[config.version] = config.manifest_hosts
        fetching = await self._versions.open(digest, hosts.get(digest))
        self._node.news.set()  # its progress
        return fetching

    async def open_older(self) -> list[Fetching | None]:
        """Open the requested older versions. None: this one failed, which delays no other version."""
        return [await self._try_open(one.version) for one in self._budget.config.older]

    async def open_mounted(self) -> None:
        """Open versions that pods have mounted and that are closed after a restart.

        After an unclean stop, they are mounted again only after a check, so they go first.
        """
        await self._open_here(sorted(self._budget.held - {self._budget.config.version}))

    async def open_retained(self) -> None:
        """Open the other versions of this disk, whose progress is reported."""
        await self._open_here(self.retained)

    async def drop_unused(self) -> None:
        """Delete versions that no one wants or reads."""
        for digest in await in_thread(self._versions.not_wanted, self._wanted()):
            # Check again each time: during the wait, a listing may have ended or the plan have changed.
            if digest not in self._wanted():
                await self._versions.drop(digest)
        if len(self._versions.fetchings) == 1:
            next(iter(self._versions.fetchings.values())).version.shared_bytes = 0

    async def _open_here(self, digests: Iterable[str]) -> None:
        for digest in digests:
            if digest not in self._versions.fetchings and self._versions.has(digest):
                await self._try_open(digest)

    async def _try_open(self, digest: str) -> Fetching | None:
        try:
            return await self.open(digest)
        except SidecarError as error:
            self._errors.older[digest] = error
            return None

    def _wanted(self) -> set[str]:
        config, listing = self._budget.config, self._listing.result
        listed = {listing.version} if listing is not None else set()
        older = {one.version for one in config.older}
        return {config.version, *config.retain, *self._budget.held} | older | self._versions.placed | listed
