"""The agent's part on a node without Kubernetes: tells the real fetcher what to hold, and the real keeper what to mount."""

import shlex
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_api.dataset import Source
from stoker_api.nodecache import NodeDataset
from stoker_sidecar.cache.layout import CachePaths, VersionPaths
from stoker_sidecar.core.credentials import AmbientCredentials, Credentials
from stoker_sidecar.core.protocol import Configure, Done, Progress, Watch, decode_reply, encode_request
from tests.support.keeper import SECONDS, Keeper, wait_until

# What a keeper needs to run the real fetcher.
FETCHER = shlex.join([sys.executable, "-m", "stoker_sidecar.fetcher"])


@dataclass(frozen=True)
class NodeVersion:
    """A version that the node was told of."""

    uid: str
    source: Source
    digest: str
    paths: VersionPaths


@dataclass(frozen=True)
class BareNode:
    """A node whose keeper was started with ``FETCHER``."""

    keeper: Keeper
    credentials: Credentials = field(default_factory=AmbientCredentials)

    def list_source(self, uid: str, source: Source) -> NodeVersion:
        """Have the source listed. Nothing is fetched ahead, and nothing is handed out."""
        row = self._follow(
            self._dataset(uid, source, listing_id="1"),
            lambda row: bool((row.get("listing") or {}).get("version")),
        )
        digest = str(row["listing"]["version"])
        folder = CachePaths(self.keeper.folder / "cache").dataset(uid).version(digest)
        return NodeVersion(uid, source, digest, folder)

    def hand_out(self, version: NodeVersion) -> None:
        """Tell the fetcher that this version is wanted, as a restarted fetcher must be."""
        with self._connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(self._configure(self._dataset(version.uid, version.source, version=version.digest)))
            assert decode_reply(lines.readline())[1] == Done()

    def warm(self, version: NodeVersion) -> None:
        """Have everything fetched; returns when the version is complete on the disk."""
        self._follow(
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

    def _follow(self, dataset: NodeDataset, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Configure a dataset and read what the fetcher tells until it tells what is wanted of it."""
        with self._connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(self._configure(dataset) + encode_request(2, Watch()))
            for line in lines:
                _, reply = decode_reply(line)
                for row in reply.datasets if isinstance(reply, Progress) else ():
                    if row["uid"] == dataset.uid and wanted(dict(row)):
                        return dict(row)
        raise AssertionError("the fetcher hung up")

    def _connect(self) -> socket.socket:
        path = self.keeper.run_dir / "fetcher.sock"
        wait_until(lambda: _listens(path))
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        connection.connect(str(path))
        return connection

    def _configure(self, dataset: NodeDataset) -> bytes:
        return encode_request(1, Configure(dataset.model_dump(mode="json", by_alias=True), self.credentials))

    def _dataset(self, uid: str, source: Source, **fields: Any) -> NodeDataset:
        return NodeDataset(namespace="ns", name=uid, uid=uid, source=source, **fields)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0
