"""The fetcher as a separate process on a cache folder, with a single Dataset."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Done, Read, ReadDone, Reply
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.s3 import CREDENTIALS

UID = "uid-1"


class FetcherNode:
    """A fetcher process and its Dataset. ``source`` is as in a Dataset. ``digest`` is that of the listed version."""

    def __init__(self, process: FetcherProcess, root: Path, source: Mapping[str, str]) -> None:
        self.process = process
        self.root = root
        self.digest = ""
        self.source = dict(source)
        self._dataset = {"namespace": "n", "name": "set", "uid": UID, "source": self.source, "listingId": "1"}

    @property
    def version(self) -> Path:
        """The folder of the listed version."""
        return self.root / "datasets" / UID / "versions" / self.digest

    async def configure(self, credentials: Credentials = CREDENTIALS, **changes: Any) -> None:
        """Send the Dataset's plan, with camelCase changes."""
        assert await self.process.ask(Configure(self._dataset | changes, credentials)) == Done()

    async def list_source(self, credentials: Credentials = CREDENTIALS) -> NodeDatasetStatus:
        """List the source. Return the status with the result, which may be an error."""
        await self.configure(credentials)
        status = await self.process.reach(lambda status: status.listing is not None)
        assert status.listing is not None
        self.digest = status.listing.version
        return status

    async def mount(self, **changes: Any) -> None:
        """Use the listed version, or list it first. Nothing is fetched without a request."""
        if not self.digest:
            listing = (await self.list_source()).listing
            assert listing is not None
            assert listing.error is None
        await self.configure(version=self.digest, **changes)

    async def warm(self, **changes: Any) -> None:
        """List the version and start to fetch it."""
        await self.mount(eager=True, **changes)

    async def reach(self, phase: NodePhase) -> NodeDatasetStatus:
        """Return the status when the Dataset is in this phase."""
        return await self.process.reach(lambda status: status.phase is phase)

    async def read(self, path: str, offset: int, length: int) -> Reply:
        """Ask for a range of a file, as a file system server does."""
        return await self.process.ask(Read(UID, self.digest, self.inodes(path)[path], offset, length))

    def content(self, reply: Reply) -> bytes:
        """Return the content of the file that a reply names."""
        assert isinstance(reply, ReadDone), reply
        return (self.version / reply.file).read_bytes()

    def inodes(self, *paths: str) -> dict[str, int]:
        """Return the inodes of these paths, or of all files without any."""
        manifest = Manifest.open(self.version / "manifest.sqlite")
        try:
            found = {manifest.path(entry.ino): entry.ino for entry in manifest.files()} if not paths else {}
            entries = {path: manifest.find(path) for path in paths}
        finally:
            manifest.close()
        return found | {path: entry.ino for path, entry in entries.items() if entry is not None}

    def paths(self) -> set[str]:
        """List the finished files."""
        tree = self.version / "tree"
        return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}

    def tree(self) -> dict[str, bytes]:
        """Return the finished files: content by path."""
        return {path: (self.version / "tree" / path).read_bytes() for path in self.paths()}

    def unfinished(self) -> list[Path]:
        """List the unfinished files of the folder."""
        return [path for path in self.root.rglob("*") if path.is_file() and path.parent.name in ("parts", "transient")]


@asynccontextmanager
async def fetcher_node(
    root: Path, source: Mapping[str, str], *options: str, memory: int | None = None
) -> AsyncIterator[FetcherNode]:
    """Run a fetcher on the cache folder ``root``, for a Dataset of this source. See ``fetcher_process``."""
    async with fetcher_process(root, *options, memory=memory) as process:
        yield FetcherNode(process, root, source)
