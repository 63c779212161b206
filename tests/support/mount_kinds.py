"""One version as pods see it, by each kind of mount."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.linux.mounts import overlay, target_mounts
from stoker_sidecar.volumes.layers import metadata_layer
from tests.support.keeper import Keeper
from tests.support.layer_forms import best_form
from tests.support.true_fetcher import true_fetcher
from tests.support.versions import VersionFolder

# cold: no bytes are on the disk. Otherwise all files are finished. native-layer: as for volumes of claims.
KINDS = ("cold-fuse", "fuse", "cold-overlay", "overlay", "native", "native-layer")


@dataclass(frozen=True)
class Shown:
    """A mounted version. ``files`` maps a path to the content that a reader must see."""

    kind: str
    path: Path
    files: dict[str, bytes]
    keeper: Keeper

    @property
    def is_fuse(self) -> bool:
        """Whether a Stoker server answers for names and attributes."""
        return self.kind.endswith("fuse")

    @property
    def is_native(self) -> bool:
        """Whether the files are those of the cache folder."""
        return self.kind.startswith("native")


@contextmanager
def shown(kind: str, folder: Path, files: dict[str, bytes]) -> Iterator[Shown]:
    """Mount a version of these files. Remove everything at the end. ``folder`` exists and is empty."""
    version, truth = VersionFolder(folder / "version", files), folder / "truth"
    for path, data in files.items():
        if data:  # an empty file has no bytes to fetch
            (truth / path).parent.mkdir(parents=True, exist_ok=True)
            (truth / path).write_bytes(data)
    if not kind.startswith("cold"):
        version.finish_all()
    target = folder / "target"
    target.mkdir()
    with ExitStack() as stack:
        keeper = stack.enter_context(Keeper(folder / "keeper"))
        socket = keeper.run_dir / "fetcher.sock"
        stack.enter_context(true_fetcher(socket, version.folder, truth))
        if kind == "native-layer":
            target_mounts.bind(version.folder / "tree", target, version.folder, folder / "scratch")
        else:
            target_mounts.bind(_source(kind, folder, version, keeper), target)
        stack.callback(overlay.unmount, folder / "overlay")
        stack.callback(target_mounts.unmount_all, target)
        yield Shown(kind, target, version.files, keeper)


def _source(kind: str, folder: Path, version: VersionFolder, keeper: Keeper) -> Path:
    """Mount the version in this way. Return the folder that pods see."""
    tree = version.folder / "tree"
    if kind == "native":
        return tree
    fuse = keeper.serve(version)
    if kind.endswith("overlay"):
        metadata_layer.build(version.manifest, folder / "metadata", form=best_form())
        overlay.mount(overlay.OverlayLayers(folder / "metadata", tree, fuse), folder / "overlay")
        return folder / "overlay"
    return fuse
