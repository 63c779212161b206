"""The full path of a byte on one node, without Kubernetes: source -> fetcher -> disk -> FUSE server -> reader."""

import errno
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_api.datasets.dataset_source import Source
from tests.support.agentless_node import FETCHER, AgentlessNode, NodeVersion
from tests.support.keeper import SECONDS, UID, Keeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
_LARGE = 20_000_000  # more than two chunks of a partial file


@pytest.fixture
def source(tmp_path: Path) -> dict[str, bytes]:
    """Write files into a folder that acts as the object store."""
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
    with Keeper(tmp_path / "k", fetcher=FETCHER) as running:
        yield running


@pytest.fixture
def node(keeper: Keeper) -> AgentlessNode:
    return AgentlessNode(keeper)


@pytest.fixture
def version(node: AgentlessNode, source: dict[str, bytes], tmp_path: Path) -> NodeVersion:
    """List the source. The node has none of its files."""
    return node.list_source(UID, Source(uri=f"file://{tmp_path / 'source'}"))


def test_a_cold_version_is_readable_at_once_and_right(
    node: AgentlessNode, version: NodeVersion, source: dict[str, bytes]
) -> None:
    node.hand_out(version)
    mountpoint = node.mount(version)
    assert {path: (mountpoint / path).read_bytes() for path in source} == source


def test_no_read_fails_while_the_fetcher_is_killed(
    keeper: Keeper, node: AgentlessNode, version: NodeVersion, source: dict[str, bytes]
) -> None:
    node.hand_out(version)
    mountpoint = node.mount(version)
    seen: dict[str, bytes] = {}
    reader = threading.Thread(target=lambda: seen.update({path: (mountpoint / path).read_bytes() for path in source}))
    os.kill(_fetcher(keeper)["pid"], signal.SIGKILL)
    reader.start()
    wait_until(lambda: _fetcher(keeper)["restarts"] >= 1)
    node.hand_out(version)
    reader.join(SECONDS)
    assert seen == source


def _fetcher(keeper: Keeper) -> dict[str, Any]:
    return next(row for row in keeper.call(op="list")["children"] if row["name"] == "fetcher")


def test_a_source_that_changed_after_the_listing_is_estale(
    node: AgentlessNode, version: NodeVersion, source: dict[str, bytes], tmp_path: Path
) -> None:
    node.hand_out(version)
    mountpoint = node.mount(version)
    (tmp_path / "source" / "large.bin").write_bytes(b"x" * _LARGE)
    with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
        (mountpoint / "large.bin").read_bytes()
