"""A keeper, fetcher and FUSE server on breakable cache folders, with a folder as the store."""

import random
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.credentials import AmbientCredentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Progress, Watch, decode_reply, encode_request
from tests.support.keeper import SECONDS, UID, Keeper
from tests.support.waiting import wait_until

_FETCHER = [sys.executable, "-m", "stoker_sidecar.fetcher.main"]


def random_files(count: int, size: int) -> dict[str, bytes]:
    """Make files in a few folders, with random content. Return the content by path."""
    seed = random.Random(count)
    return {f"class{n % 3}/{n}.png": seed.randbytes(size) for n in range(count)}


class FaultyNode:
    """A node with breakable parts, and ``files``: the content that every reader must see."""

    def __init__(self, folder: Path, keeper: Keeper, roots: list[Path], files: dict[str, bytes]) -> None:
        self.files = files
        self.keeper = keeper
        self._folders = CacheFolders(roots)
        self._source = folder / "source"
        for path, data in files.items():
            file = self._source / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def configure(self, *, version: str = "", eager: bool = False) -> None:
        """Send the desired state to the fetcher, which lists once."""
        source = Source(uri=f"file://{self._source}")
        dataset = NodeDataset(
            namespace="ns", name="data", uid=UID, source=source, listing_id="1", version=version, eager=eager
        )
        with self._connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(encode_request(1, Configure(dataset.wire(), AmbientCredentials())))
            lines.readline()

    def progress(self) -> Progress:
        """Return the current progress."""
        with self._connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(encode_request(1, Watch()))
            reply = decode_reply(lines.readline())[1]
        assert isinstance(reply, Progress)
        return reply

    def status(self) -> NodeDatasetStatus:
        """Return the status of the dataset."""
        return NodeDatasetStatus.model_validate(self.progress().datasets[0])

    def reach(self, condition: Callable[[NodeDatasetStatus], bool], seconds: float = 2 * SECONDS) -> None:
        """Wait until the dataset's status matches."""
        wait_until(lambda: condition(self.status()), seconds)

    def list(self) -> str:
        """List the source. Return the digest."""
        self.configure()
        self.reach(lambda status: status.listing is not None and bool(status.listing.version))
        listing = self.status().listing
        assert listing is not None
        self.configure(version=listing.version)
        return listing.version

    def mount(self, digest: str) -> Path:
        """Mount the version with FUSE. Return the path."""
        wait_until(lambda: self._folders.paths(UID, digest) is not None)
        paths = self._folders.paths(UID, digest)
        assert paths is not None
        mountpoint = self.keeper.mount_root / UID / digest
        words = {"manifest": paths.manifest, "version_dir": paths.folder, "mountpoint": mountpoint}
        reply = self.keeper.call(
            op="serve", uid=UID, digest=digest, **{name: str(path) for name, path in words.items()}
        )
        assert reply["ok"], reply
        return mountpoint

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        wait_until(lambda: connection.connect_ex(str(self.keeper.run_dir / "fetcher.sock")) == 0)
        return connection


@contextmanager
def faulty_node(folder: Path, folders: str, files: dict[str, bytes], floor: str = "0") -> Iterator[FaultyNode]:
    """Run a node on these cache ``folders``, in the format of the keeper's --cache-root.

    ``floor`` is the part of their disks that permanent files leave free.
    """
    options = ["--cache-root", folders]
    fetcher = shlex.join([*_FETCHER, "--floor-bytes", floor, "--host-folder", str(folder)])
    with Keeper(folder / "k", fetcher=fetcher, options=options) as keeper:
        roots = [Path(word.removeprefix("memory:")) for word in folders.split(",")]
        yield FaultyNode(folder, keeper, roots, files)
