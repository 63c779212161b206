"""The assumptions of the publisher's tests about overlays, checked with the real kernel.

The fake and the real ones behave alike.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_sidecar.errors import MountError
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.layers.metadata_layer import LayerForm
from stoker_sidecar.volumes.layers.overlays import Overlays
from stoker_sidecar.volumes.mount_sources import OverlayMounts
from tests.fakes.volumes import UID, FakeOverlays
from tests.support.keeper import clear_mounts
from tests.support.layer_forms import need
from tests.support.versions import VersionFolder
from tests.support.waiting import eventually

pytestmark = pytest.mark.root


@dataclass
class OneVersion:
    """Overlays, one version, and the events: ``build`` finishes the layer that was started."""

    overlays: OverlayMounts
    version: tuple[str, str]
    paths: VersionPaths
    fuse: Path
    build: Callable[[], Awaitable[None]]

    async def begin(self) -> None:
        self.overlays.begin(self.version, self.paths.manifest)
        await self.build()

    def show(self) -> Path:
        return self.overlays.show(self.version, self.paths, self.fuse)


@pytest.fixture(params=["fake", *LayerForm])
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OneVersion]:
    on_disk = VersionFolder(tmp_path / "cache" / "datasets" / UID / "versions" / "v", {"a": b"1"})
    version = (UID, on_disk.info.digest)
    fuse = tmp_path / "mnt" / UID / on_disk.info.digest
    fuse.mkdir(parents=True)
    overlays: OverlayMounts = FakeOverlays()
    if isinstance(request.param, LayerForm):
        need(request.param)
        overlays = Overlays(tmp_path / "meta", tmp_path / "mnt", lambda: None, form=request.param)

    async def build() -> None:
        if isinstance(overlays, FakeOverlays):
            overlays.ready.add(version)
        await eventually(lambda: overlays.is_ready(version))

    yield OneVersion(overlays, version, VersionPaths(on_disk.folder), fuse, build)
    clear_mounts(tmp_path)


async def test_a_layer_is_ready_when_it_is_built_and_not_before(one: OneVersion) -> None:
    before = (one.overlays.is_ready(one.version), one.overlays.built())
    await one.begin()
    assert (before, one.overlays.is_ready(one.version)) == ((False, ()), True)
    assert one.overlays.built() == (one.version,)


async def test_a_dropped_layer_is_not_ready_any_more(one: OneVersion) -> None:
    await one.begin()
    one.overlays.drop(one.version)
    assert not one.overlays.is_ready(one.version)
    await eventually(lambda: one.overlays.built() == ())


@pytest.mark.expected_logs("the kernel refused it")
async def test_a_layer_that_is_not_trusted_is_not_ready(one: OneVersion) -> None:
    await one.begin()
    one.overlays.distrust(one.version, "the kernel refused it")
    assert not one.overlays.is_ready(one.version)


async def test_an_overlay_is_shown_at_one_place_however_often(one: OneVersion) -> None:
    await one.begin()
    places = {one.show() for _ in range(2)}
    assert {(place.parent.name, place.name) for place in places} == {(UID, f"{one.version[1]}.overlay")}


async def test_an_overlay_without_a_layer_is_refused(one: OneVersion) -> None:
    with pytest.raises(MountError):
        one.show()


async def test_a_hidden_overlay_is_left_over_no_more(one: OneVersion) -> None:
    await one.begin()
    one.show()
    left = one.overlays.leftovers(frozenset())
    for _ in range(2):
        one.overlays.hide(one.version)
    assert (left, one.overlays.leftovers(frozenset())) == ((one.version,), ())


async def test_an_overlay_in_use_is_not_left_over(one: OneVersion) -> None:
    await one.begin()
    one.show()
    assert one.overlays.leftovers(frozenset({one.version})) == ()


@pytest.mark.root
async def test_a_link_in_place_of_the_cached_files_is_not_followed(tmp_path: Path) -> None:
    on_disk = VersionFolder(tmp_path / "cache" / "datasets" / UID / "versions" / "v", {"a": b"1"})
    version, paths = (UID, on_disk.info.digest), VersionPaths(on_disk.folder)
    overlays = Overlays(tmp_path / "meta", tmp_path / "mnt", lambda: None)
    overlays.begin(version, paths.manifest)
    await eventually(lambda: overlays.is_ready(version))
    paths.tree.rename(tmp_path / "elsewhere")
    paths.tree.symlink_to(tmp_path / "elsewhere")
    try:
        with pytest.raises(MountError, match="symbolic links"):
            overlays.show(version, paths, tmp_path)
    finally:
        clear_mounts(tmp_path)
