"""One node over one S3 server, with datasets in many formats, for programs without support for Stoker."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.linux.mounts import overlay, target_mounts
from stoker_sidecar.volumes.layers import metadata_layer
from tests.support.agentless_node import FETCHER, AgentlessNode, NodeVersion
from tests.support.client_data import FORMATS
from tests.support.keeper import Keeper
from tests.support.layer_forms import best_form
from tests.support.s3 import CREDENTIALS, S3Server, running_s3

Show = Callable[[str], Path]  # the name of a format -> its mount point
_UPLOADS = 8  # concurrency; the client keeps ten connections


@dataclass(frozen=True)
class Cluster:
    """A store and a node. ``truth`` has one folder per format, each also in the bucket of its name."""

    truth: Path
    s3: S3Server
    node: AgentlessNode

    def listed(self, form: str) -> NodeVersion:
        """List the bucket as a new Dataset without local files."""
        return self.node.list_source(uuid4().hex, Source(uri=f"s3://{form}", endpoint=self.s3.endpoint))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Upload datasets in every format, and run keeper and fetcher."""
    truth = tmp_path_factory.mktemp("truth")
    for name, fill in FORMATS.items():
        fill(truth / name)
    with running_s3(tmp_path_factory.mktemp("s3")) as s3:
        asyncio.run(_upload(s3, FORMATS, _files(truth)))
        with Keeper(tmp_path_factory.mktemp("node") / "k", fetcher=FETCHER) as keeper:
            yield Cluster(truth, s3, AgentlessNode(keeper, CREDENTIALS))


@pytest.fixture(params=["cold_fuse", "cold_overlay", "native"])
def show(request: pytest.FixtureRequest) -> Show:
    """Mount a format as a pod would see it: with all bytes in the bucket, or with all of them on the disk."""
    mount: Show = request.getfixturevalue(request.param)
    return mount


@pytest.fixture
def cold_fuse(cluster: Cluster, tmp_path: Path) -> Iterator[Show]:
    """Show versions only by FUSE."""
    with ExitStack() as stack:
        yield lambda form: _bound(stack, _cold(stack, cluster, form)[1], tmp_path / "target")


@pytest.fixture
def cold_overlay(cluster: Cluster, tmp_path: Path) -> Iterator[Show]:
    """Show versions in an overlay: names from the kernel, bytes through FUSE."""
    with ExitStack() as stack:

        def mount(form: str) -> Path:
            version, fuse = _cold(stack, cluster, form)
            metadata_layer.build(version.paths.manifest, tmp_path / "metadata", form=best_form())
            stack.callback(overlay.unmount, tmp_path / "overlay")
            overlay.mount(overlay.OverlayLayers(tmp_path / "metadata", version.paths.tree, fuse), tmp_path / "overlay")
            return _bound(stack, tmp_path / "overlay", tmp_path / "target")

        yield mount


@pytest.fixture(scope="session")
def native(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Show]:
    """Show the files of a complete version, once for all tests, because reads do not change it."""
    folder = tmp_path_factory.mktemp("native")
    with ExitStack() as stack:

        @cache
        def mount(form: str) -> Path:
            version = cluster.listed(form)
            cluster.node.warm(version)
            return _bound(stack, version.paths.tree, folder / form)

        yield mount


def _cold(stack: ExitStack, cluster: Cluster, form: str) -> tuple[NodeVersion, Path]:
    """Return a version without any read bytes, and its FUSE mount."""
    version = cluster.listed(form)
    cluster.node.hand_out(version)
    assert not [path for path in version.paths.tree.rglob("*") if path.is_file()]
    stack.callback(cluster.node.release, version)
    return version, cluster.node.mount(version)


def _bound(stack: ExitStack, source: Path, target: Path) -> Path:
    target.mkdir()
    stack.callback(target_mounts.unmount_all, target)
    target_mounts.bind(source, target)
    return target


async def _upload(s3: S3Server, buckets: Iterable[str], files: Iterable[tuple[str, str, bytes]]) -> None:
    """Make the buckets and upload ``files``: bucket, key, content."""
    rest = iter(files)
    async with s3.client() as client:
        for bucket in buckets:
            await client.create_bucket(Bucket=bucket)

        async def put() -> None:
            for bucket, key, data in rest:
                await client.put_object(Bucket=bucket, Key=key, Body=data)

        await asyncio.gather(*(put() for _ in range(_UPLOADS)))


def _files(truth: Path) -> Iterator[tuple[str, str, bytes]]:
    for path in truth.rglob("*"):
        if path.is_file():
            bucket, _, key = str(path.relative_to(truth)).partition("/")
            yield bucket, key, path.read_bytes()
