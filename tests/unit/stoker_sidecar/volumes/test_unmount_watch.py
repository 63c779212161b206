"""Volumes and servers that another program unmounts."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import VolumeCode, VolumeError
from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.volumes.core.publish import Bind, Published, PublishRequest, published
from stoker_sidecar.volumes.unmount_watch import UnmountWatch
from tests.fakes.volumes import DIGEST, UID, FakeVersions, publish_request


@dataclass
class Volumes:
    """One volume on FUSE, and the mounts of the machine. ``unmounted`` ones are missing."""

    folder: Path
    refuses: bool = False
    unmounted: set[Path] = field(default_factory=set)
    done: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = self.folder / "pod" / "mount"
        self.server = self.folder / "mnt" / UID / DIGEST
        for path in (self.target, self.server):
            path.mkdir(parents=True)
        here = FakeVersions().add(complete=False)
        self.record = published(publish_request(target=self.target), Bind(UID, DIGEST, here), MountMode.FUSE)
        self.watch = UnmountWatch(self, self.folder / "mnt", self.read)

    def all(self) -> tuple[Published, ...]:
        return (self.record,)

    def read(self) -> list[Mount]:
        here = {self.target, self.server} - self.unmounted
        return [Mount(1, 0, "0:1", "/", str(path), (), False, "fuse.stoker", "stoker") for path in here]

    async def serve_again(self, record: Published) -> None:
        self.mounted(self.server)

    async def mount_again(self, request: PublishRequest) -> None:
        self.mounted(request.target)

    def mounted(self, path: Path) -> None:
        if self.refuses:
            raise VolumeError(VolumeCode.INTERNAL, "the kernel refused")
        self.done.append(path)
        self.unmounted.discard(path)

    async def look(self, times: int) -> list[Path]:
        for _ in range(times):
            await self.watch.look()
        return self.done


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    return Volumes(tmp_path)


@pytest.mark.expected_logs("was unmounted by another program and is mounted again")
async def test_what_is_missing_twice_is_mounted_again_once_servers_first(volumes: Volumes) -> None:
    volumes.unmounted = {volumes.target, volumes.server}
    assert await volumes.look(4) == [volumes.server, volumes.target]


async def test_a_volume_that_is_being_published_is_left_alone(volumes: Volumes) -> None:
    volumes.unmounted = {volumes.target}
    await volumes.look(1)
    volumes.unmounted.clear()
    assert await volumes.look(2) == []


async def test_a_volume_of_a_removed_pod_is_left_alone(volumes: Volumes) -> None:
    volumes.target.rmdir()
    volumes.target.parent.rmdir()
    volumes.unmounted = {volumes.target}
    assert await volumes.look(3) == []


@pytest.mark.expected_logs("new containers of trainer-0 see no data: the kernel refused")
async def test_what_cannot_be_mounted_is_an_error_in_the_log(volumes: Volumes) -> None:
    volumes.unmounted, volumes.refuses = {volumes.target}, True
    assert await volumes.look(2) == []
