"""What the publisher's tests believe of overlays, held against the real kernel: the fake and the real ones behave alike."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_sidecar.errors import MountError
from stoker_sidecar.volumes.overlays import Overlays as RealOverlays
from stoker_sidecar.volumes.ports import Overlays
from tests.fakes.csi import UID, FakeOverlays
from tests.support.keeper import clear_mounts
from tests.support.versions import VersionFolder
from tests.support.waiting import eventually

pytestmark = pytest.mark.root


@dataclass
class Subject:
    """Overlays, a version, and what the world does: ``build`` finishes the layer that was begun."""

    overlays: Overlays
    version: tuple[str, str]
    manifest: Path
    tree: Path
    fuse: Path
    build: Callable[[], Awaitable[None]]

    async def begin(self) -> None:
        self.overlays.begin(self.version, self.manifest)
        await self.build()

    def show(self) -> Path:
        return self.overlays.show(self.version, self.tree, self.fuse)


@pytest.fixture(params=["fake", "real"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    on_disk = VersionFolder(tmp_path / "v", {"a": b"1"})
    version = (UID, on_disk.info.digest)
    fuse = tmp_path / "mnt" / UID / on_disk.info.digest
    fuse.mkdir(parents=True)
    overlays: Overlays = FakeOverlays()
    if request.param == "real":
        overlays = RealOverlays(tmp_path / "meta", tmp_path / "mnt", lambda: None)

    async def build() -> None:
        if isinstance(overlays, FakeOverlays):
            overlays.ready.add(version)
        await eventually(lambda: overlays.is_ready(version))

    yield Subject(overlays, version, on_disk.manifest, on_disk.folder / "tree", fuse, build)
    clear_mounts(tmp_path)


async def test_a_layer_is_ready_when_it_is_built_and_not_before(subject: Subject) -> None:
    before = (subject.overlays.is_ready(subject.version), subject.overlays.built())
    await subject.begin()
    assert (before, subject.overlays.is_ready(subject.version)) == ((False, ()), True)
    assert subject.overlays.built() == (subject.version,)


async def test_a_dropped_layer_is_not_ready_any_more(subject: Subject) -> None:
    await subject.begin()
    subject.overlays.drop(subject.version)
    assert not subject.overlays.is_ready(subject.version)
    await eventually(lambda: subject.overlays.built() == ())


@pytest.mark.expected_logs("the kernel refused it")
async def test_a_layer_that_is_not_trusted_is_not_ready(subject: Subject) -> None:
    await subject.begin()
    subject.overlays.distrust(subject.version, "the kernel refused it")
    assert not subject.overlays.is_ready(subject.version)


async def test_an_overlay_is_shown_at_one_place_however_often(subject: Subject) -> None:
    await subject.begin()
    places = {subject.show() for _ in range(2)}
    assert {(place.parent.name, place.name) for place in places} == {(UID, f"{subject.version[1]}.overlay")}


async def test_an_overlay_without_a_layer_is_refused(subject: Subject) -> None:
    with pytest.raises(MountError):
        subject.show()


async def test_a_hidden_overlay_is_left_over_no_more(subject: Subject) -> None:
    await subject.begin()
    subject.show()
    left = subject.overlays.leftovers(frozenset())
    for _ in range(2):
        subject.overlays.hide(subject.version)
    assert (left, subject.overlays.leftovers(frozenset())) == ((subject.version,), ())


async def test_an_overlay_in_use_is_not_left_over(subject: Subject) -> None:
    await subject.begin()
    subject.show()
    assert subject.overlays.leftovers(frozenset({subject.version})) == ()
