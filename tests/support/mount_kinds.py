"""One version as pods see it, by each kind of mount."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.fs import mounts
from tests.support.keeper import Keeper
from tests.support.true_fetcher import true_fetcher
from tests.support.versions import VersionFolder

# cold: FUSE, and no byte is on the disk; fuse: FUSE over the finished files; native: a bind mount of them.
KINDS = ("cold", "fuse", "native")


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
        return self.kind in ("cold", "fuse")


@contextmanager
def shown(kind: str, folder: Path, files: dict[str, bytes]) -> Iterator[Shown]:
    """Mount a version of these files; take everything away in the end. ``folder``: one that is there and empty."""
    version, truth = VersionFolder(folder / "version", files), folder / "truth"
    for path, data in files.items():
        if data:  # of an empty file there is nothing to bring
            (truth / path).parent.mkdir(parents=True, exist_ok=True)
            (truth / path).write_bytes(data)
    if kind != "cold":
        version.finish_all()
    target = folder / "target"
    target.mkdir()
    with ExitStack() as stack:
        keeper = stack.enter_context(Keeper(folder / "keeper"))
        socket = keeper.run_dir / "fetcher.sock"
        stack.enter_context(true_fetcher(socket, version.folder, truth))
        source = version.folder / "tree" if kind == "native" else keeper.serve(version)
        mounts.bind(source, target)
        stack.callback(mounts.unmount_all, target)
        yield Shown(kind, target, version.files, keeper)
