"""The agent's part on a node without Kubernetes.

Tells the real fetcher what to hold, and the real keeper what to mount.
"""

import shlex
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_api.dataset_source import Source
from stoker_api.node_dataset import NodeDataset
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

# What a keeper needs to run the real fetcher.
FETCHER = shlex.join([sys.executable, "-m", "stoker_sidecar.fetcher.main", "--floor-bytes=0", "--host-folder=/"])


@dataclass(frozen=True)
class NodeVersion:
    """A version that the node was told of."""

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
        """Have the source listed; again for another ``listing``.

        Nothing is fetched ahead, and nothing is handed out.
        """
        row = self._reach(
            self._dataset(uid, source, listing_id=listing),
            lambda row: (row.get("listing") or {}).get("id") == listing and bool(row["listing"].get("version")),
        )
        digest = str(row["listing"]["version"])
        folder = CachePaths(self.keeper.folder / "cache").dataset(uid).version(digest)
        return NodeVersion(uid, source, digest, folder)

    def hand_out(self, version: NodeVersion) -> None:
        """Tell the fetcher that this version is wanted, as a restarted fetcher must be."""
        self._tell(self._configure(self._dataset(version.uid, version.source, version=version.digest)))

    def begin_warming(self, version: NodeVersion) -> None:
        """Have it fetched in the background, until ``hand_out`` says otherwise."""
        dataset = self._dataset(version.uid, version.source, version=version.digest, eager=True)
        self._tell(self._configure(dataset))

    def remove(self, uid: str) -> None:
        """Forget the dataset and delete what is here of it."""
        self._tell(Remove(uid))

    def warm(self, version: NodeVersion) -> None:
        """Have everything fetched; returns when the version is complete on the disk."""
        self._reach(
            self._dataset(version.uid, version.source, version=version.digest, eager=True),
            lambda row: row["phase"] == "Warm",
        )
        wait_until(version.paths.complete.exists)

    def mount(self, version: NodeVersion) -> Path:
        """Have the keeper mount it with FUSE; where."""
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
        """Return the first reply; ask again when it is a fetcher that ends just now."""
        replies: list[Reply] = []

        def look() -> bool:
            with suppress(ConnectionError), self._connect() as connection, connection.makefile("rb") as lines:
                connection.sendall(encode_request(1, request))
                replies.extend(decode_reply(line)[1] for line in [lines.readline()] if line)
            return bool(replies)

        wait_until(look)
        return replies[0]

    def _reach(self, dataset: NodeDataset, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Configure a dataset and look what the fetcher tells until it tells what is wanted of it."""
        self._tell(self._configure(dataset))
        told: list[dict[str, Any]] = []

        def look() -> bool:
            told[:] = [row for row in self._progress() if row["uid"] == dataset.uid]
            return any(map(wanted, told))

        wait_until(look)
        return told[0]

    def _progress(self) -> list[dict[str, Any]]:
        """Ask with a new watch, as it is answered at once and an old one once a second."""
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
