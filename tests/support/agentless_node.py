"""The agent's part on a node without Kubernetes.

It sends the desired versions to the real fetcher, and mounts to the real keeper.
"""

import shlex
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.wire.credentials import AmbientCredentials, Credentials
from stoker_sidecar.wire.fetcher_protocol import (
    Configure,
    Done,
    Progress,
    Remove,
    Reply,
    Request,
    Watch,
    decode_reply,
    encode_request,
)
from tests.support.keeper import SECONDS, Keeper
from tests.support.waiting import wait_until

# The settings with which a keeper runs the real fetcher.
FETCHER = shlex.join([sys.executable, "-m", "stoker_sidecar.fetcher.main", "--floor-bytes=0", "--host-folder=/"])


@dataclass(frozen=True)
class NodeVersion:
    """A version that the node knows."""

    uid: str
    source: Source
    digest: str
    paths: VersionPaths


@dataclass(frozen=True)
class AgentlessNode:
    """A node whose keeper was started with ``FETCHER``."""

    keeper: Keeper
    credentials: Credentials = field(default_factory=AmbientCredentials)

    def list_source(self, uid: str, source: Source, listing: str = "1") -> NodeVersion:
        """List the source, and list it again for another ``listing``.

        The fetcher prefetches nothing, and hands nothing out.
        """
        row = self._reach(
            self._dataset(uid, source, listing_id=listing),
            lambda row: (row.get("listing") or {}).get("id") == listing and bool(row["listing"].get("version")),
        )
        digest = str(row["listing"]["version"])
        folder = CachePaths(self.keeper.folder / "cache").dataset(uid).version(digest)
        return NodeVersion(uid, source, digest, folder)

    def hand_out(self, version: NodeVersion) -> None:
        """Send this version to the fetcher, as after a restart of the fetcher."""
        self._tell(self._configure(self._dataset(version.uid, version.source, version=version.digest)))

    def begin_warming(self, version: NodeVersion) -> None:
        """Fetch it in the background, until a call of ``hand_out``."""
        dataset = self._dataset(version.uid, version.source, version=version.digest, eager=True)
        self._tell(self._configure(dataset))

    def remove(self, uid: str) -> None:
        """Forget the dataset and delete its local files."""
        self._tell(Remove(uid))

    def warm(self, version: NodeVersion) -> None:
        """Fetch everything. Return when the version is complete on the disk."""
        self._reach(
            self._dataset(version.uid, version.source, version=version.digest, eager=True),
            lambda row: row["phase"] == "Warm",
        )
        wait_until(version.paths.complete.exists)

    def mount(self, version: NodeVersion) -> Path:
        """Mount it with FUSE through the keeper. Return the path."""
        mountpoint = self.keeper.mount_root / version.uid / version.digest
        paths = {"manifest": version.paths.manifest, "version_dir": version.paths.folder, "mountpoint": mountpoint}
        words = {name: str(path) for name, path in paths.items()}
        reply = self.keeper.call(op="serve", uid=version.uid, digest=version.digest, **words)
        assert reply["ok"], reply
        return mountpoint

    def release(self, version: NodeVersion) -> None:
        """End its FUSE server and mount."""
        self.keeper.call(op="release", uid=version.uid, digest=version.digest)

    def _tell(self, request: Request) -> None:
        assert self._ask(request) == Done()

    def _ask(self, request: Request) -> Reply:
        """Return the first reply. Retry if a fetcher is exiting at the moment."""
        replies: list[Reply] = []

        def look() -> bool:
            with suppress(ConnectionError), self._connect() as connection, connection.makefile("rb") as lines:
                connection.sendall(encode_request(1, request))
                replies.extend(decode_reply(line)[1] for line in [lines.readline()] if line)
            return bool(replies)

        wait_until(look)
        return replies[0]

    def _reach(self, dataset: NodeDataset, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Configure a dataset. Poll the fetcher's status until it matches."""
        self._tell(self._configure(dataset))
        told: list[dict[str, Any]] = []

        def look() -> bool:
            told[:] = [row for row in self._progress() if row["uid"] == dataset.uid]
            return any(map(wanted, told))

        wait_until(look)
        return told[0]

    def _progress(self) -> list[dict[str, Any]]:
        """Use a new watch for each poll, because it is answered at once, and an old one only once a second."""
        reply = self._ask(Watch())
        assert isinstance(reply, Progress)
        return [dict(row) for row in reply.datasets]

    def _connect(self) -> socket.socket:
        path = self.keeper.run_dir / "fetcher.sock"
        wait_until(lambda: _listens(path))
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        connection.connect(str(path))
        return connection

    def _configure(self, dataset: NodeDataset) -> Configure:
        return Configure(dataset.model_dump(mode="json", by_alias=True), self.credentials)

    def _dataset(self, uid: str, source: Source, **fields: Any) -> NodeDataset:
        return NodeDataset(namespace="ns", name=uid, uid=uid, source=source, **fields)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0
