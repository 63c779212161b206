"""The whole way of a byte on one node, with no Kubernetes: source -> fetcher -> disk -> FUSE server -> reader."""

import errno
import os
import random
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_api.dataset import Source
from stoker_api.nodecache import NodeDataset
from stoker_sidecar.core.credentials import AmbientCredentials
from stoker_sidecar.core.protocol import Configure, Done, Progress, Watch, decode_reply, encode_request
from tests.support.keeper import SECONDS, UID, Keeper, wait_until

pytestmark = pytest.mark.root
_FETCHER = shlex.join([sys.executable, "-m", "stoker_sidecar.fetcher"])
_LARGE = 20_000_000  # more than two chunks of a partial file


@pytest.fixture
def source(tmp_path: Path) -> dict[str, bytes]:
    """Files in a folder that stands for the object store."""
    seed = random.Random(5)
    files = {f"class {n % 3}/{n}.png": seed.randbytes(n * 500) for n in range(30)} | {
        "large.bin": seed.randbytes(_LARGE)
    }
    for path, data in files.items():
        file = tmp_path / "source" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return files


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with Keeper(tmp_path / "k", fetcher=_FETCHER) as running:
        yield running


class _Agent:
    """The agent's part: tells the fetcher what to hold, and the keeper what to mount."""

    def __init__(self, keeper: Keeper, folder: Path) -> None:
        self._keeper = keeper
        self._source = Source(uri=f"file://{folder}")

    def list_source(self) -> str:
        """Have the source listed; the digest. Nothing is fetched ahead."""
        with self._connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(self._configure(listing_id="1") + encode_request(2, Watch()))
            for line in lines:
                _, reply = decode_reply(line)
                if isinstance(reply, Progress) and (version := _listed_version(reply)):
                    return version
        raise AssertionError("the fetcher hung up")

    def hand_out(self, digest: str) -> None:
        """Tell the fetcher that this version is wanted, as a restarted fetcher must be."""
        with self._connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(self._configure(version=digest))
            assert decode_reply(lines.readline())[1] == Done()

    def mount(self, digest: str) -> Path:
        """Have the keeper mount it; where."""
        folder = self._keeper.folder / "cache" / "datasets" / UID / "versions" / digest
        mountpoint = self._keeper.mount_root / UID / digest
        paths = {"manifest": folder / "manifest.sqlite", "version_dir": folder, "mountpoint": mountpoint}
        reply = self._keeper.call(op="serve", uid=UID, digest=digest, **{name: str(p) for name, p in paths.items()})
        assert reply["ok"], reply
        return mountpoint

    def _connect(self) -> socket.socket:
        path = self._keeper.run_dir / "fetcher.sock"
        wait_until(lambda: _listens(path))
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        connection.connect(str(path))
        return connection

    def _configure(self, *, listing_id: str = "", version: str = "") -> bytes:
        dataset = NodeDataset(
            namespace="ns", name="data", uid=UID, source=self._source, listing_id=listing_id, version=version
        )
        return encode_request(1, Configure(dataset.model_dump(mode="json", by_alias=True), AmbientCredentials()))


def _listed_version(progress: Progress) -> str:
    (dataset,) = progress.datasets
    return str((dataset.get("listing") or {}).get("version", ""))


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


@pytest.fixture
def agent(keeper: Keeper, tmp_path: Path) -> _Agent:
    return _Agent(keeper, tmp_path / "source")


def test_a_cold_version_is_readable_at_once_and_right(agent: _Agent, source: dict[str, bytes]) -> None:
    digest = agent.list_source()
    agent.hand_out(digest)
    mountpoint = agent.mount(digest)
    assert {path: (mountpoint / path).read_bytes() for path in source} == source


def test_no_read_fails_while_the_fetcher_is_killed(keeper: Keeper, agent: _Agent, source: dict[str, bytes]) -> None:
    digest = agent.list_source()
    agent.hand_out(digest)
    mountpoint = agent.mount(digest)
    seen: dict[str, bytes] = {}
    reader = threading.Thread(target=lambda: seen.update({path: (mountpoint / path).read_bytes() for path in source}))
    (fetcher,) = keeper.call(op="list")["children"]
    os.kill(fetcher["pid"], signal.SIGKILL)
    reader.start()
    wait_until(lambda: keeper.call(op="list")["children"][0]["restarts"] == 1)
    agent.hand_out(digest)
    reader.join(SECONDS)
    assert seen == source


def test_a_source_that_changed_after_the_listing_is_estale(
    agent: _Agent, source: dict[str, bytes], tmp_path: Path
) -> None:
    digest = agent.list_source()
    agent.hand_out(digest)
    mountpoint = agent.mount(digest)
    (tmp_path / "source" / "large.bin").write_bytes(b"x" * _LARGE)
    with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
        (mountpoint / "large.bin").read_bytes()
