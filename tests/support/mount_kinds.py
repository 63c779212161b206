"""One version as pods see it, by each kind of mount."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.linux import mounts, overlay
from stoker_sidecar.volumes import metadata_layer
from tests.support.keeper import Keeper
from tests.support.layer_forms import best_form
from tests.support.true_fetcher import true_fetcher
from tests.support.versions import VersionFolder

# cold: no byte is on the disk; else all files are finished.
KINDS = ("cold-fuse", "fuse", "cold-overlay", "overlay", "native")


@dataclass(frozen=True)
class Shown:
    """A mounted version; ``files``: path -> content, what a reader must see."""

    kind: str
    path: Path
    files: dict[str, bytes]
    keeper: Keeper

    @property
    def is_fuse(self) -> bool:
        """Whether a server of ours answers for names and attributes."""
        return self.kind.endswith("fuse")


@contextmanager
def shown(kind: str, folder: Path, files: dict[str, bytes]) -> Iterator[Shown]:
    """Mount a version of these files; take everything away in the end. ``folder``: one that is there and empty."""
    version, truth = VersionFolder(folder / "version", files), folder / "truth"
    for path, data in files.items():
        if data:  # of an empty file there is nothing to bring
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
        mounts.bind(_source(kind, folder, version, keeper), target)
        stack.callback(overlay.unmount, folder / "overlay")
        stack.callback(mounts.unmount_all, target)
        yield Shown(kind, target, version.files, keeper)


def _source(kind: str, folder: Path, version: VersionFolder, keeper: Keeper) -> Path:
    """Mount the version in this way, and return the folder that pods are shown."""
    tree = version.folder / "tree"
    if kind == "native":
        return tree
    fuse = keeper.serve(version)
    if kind.endswith("overlay"):
        metadata_layer.build(version.manifest, folder / "metadata", form=best_form())
        overlay.mount(overlay.OverlayLayers(folder / "metadata", tree, fuse), folder / "overlay")
        return folder / "overlay"
    return fuse
