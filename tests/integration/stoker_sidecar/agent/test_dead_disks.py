"""A cache disk that refuses every call, as XFS does after a shutdown, loses only its own data, not the agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_storage import CacheFolder
from stoker_sidecar.agent.planning.cache_roots import restore_missing
from stoker_sidecar.errors import VolumeError
from stoker_sidecar.linux.mounts import target_mounts
from stoker_sidecar.version.layout import CachePaths
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mount_upkeep import MountUpkeep
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.node_volumes import Reconciler
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from tests.fakes.volumes import UID, Clock, FakeKeeper, FakeOverlays, FakePlan, node_dataset, publish_request
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.versions import VersionFolder

pytestmark = pytest.mark.root
FILES = {"a": b"alpha"}


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, kind="xfs") as made:
        yield made


class TwoDisks:
    """The volumes of a node with a cache folder on a dying disk, and one on a healthy disk."""

    def __init__(self, folder: Path, dying: Path) -> None:
        self.roots = [dying, folder / "good"]
        self._folder = folder
        self.plan = FakePlan(Clock())
        table = MountTable(folder / "mounts.json")
        modes = (MountMode.NATIVE, MountMode.FUSE)
        sources = MountSources(FakeKeeper(), FakeOverlays(), table, folder / "mnt", modes)
        self.folders = CacheFolders(self.roots)
        self.volumes = MountedVolumes(table, sources, Mounter(target_mounts), self.folders.find)
        self.upkeep = MountUpkeep(self.volumes.bindings, sources)
        self.publisher = Publisher(self.plan, self.volumes, clock=self.plan.clock)

    def put(self, root: Path, name: str) -> None:
        """Put a complete version of the dataset ``name`` into a folder, and plan it."""
        made = VersionFolder(self._folder / f"making-{name}", FILES | {name: b""})
        paths = CachePaths(root).dataset(f"{UID}-{name}").version(made.info.digest)
        paths.folder.mkdir(parents=True)
        paths.manifest.write_bytes(made.manifest.read_bytes())
        paths.tree.mkdir()
        for path, data in FILES.items():
            (paths.tree / path).write_bytes(data)
        paths.complete.touch()
        self.plan.add(node_dataset(name=name, uid=f"{UID}-{name}", version=made.info.digest))

    async def publish(self, name: str) -> Path:
        target = self._folder / "pods" / name / "mount"
        await self.publisher.publish(publish_request(name, dataset=name, target=target))
        return target


@pytest.fixture
def node(tmp_path: Path, dying: SmallDisk) -> Iterator[TwoDisks]:
    made = TwoDisks(tmp_path, dying.path)
    made.put(dying.path, "lost")
    made.put(made.roots[1], "spared")
    yield made
    for record in made.volumes.all():
        target_mounts.unmount_all(record.request.target)


async def test_what_lies_on_another_disk_is_mounted(node: TwoDisks, dying: SmallDisk) -> None:
    dying.kill()
    assert (await node.publish("spared") / "a").read_bytes() == b"alpha"


async def test_what_lies_on_the_dead_disk_is_refused_in_a_sentence(node: TwoDisks, dying: SmallDisk) -> None:
    dying.kill()
    with pytest.raises(VolumeError, match="is not on this node yet"):
        await node.publish("lost")


@pytest.mark.expected_logs("was not mounted again")
async def test_volumes_are_restored_and_reconciled_beside_dead_ones(node: TwoDisks, dying: SmallDisk) -> None:
    for name in ("lost", "spared"):
        await node.publish(name)
    dying.kill()
    await node.upkeep.restore()
    await Reconciler(Changes(), node.upkeep).reconcile_all()
    assert (await node.publish("spared") / "a").read_bytes() == b"alpha"


def test_a_folder_of_a_dead_disk_is_left_alone(dying: SmallDisk, tmp_path: Path) -> None:
    dying.kill()
    restore_missing([CacheFolder(path=str(dying.path / "cache"), healthy=False)], tmp_path)
