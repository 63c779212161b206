"""Images without a registry: the two that every node needs, and the store from which new nodes are filled."""

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.nodeconfig import PAUSE_IMAGE
from e2e.cluster.processes import run

BUSYBOX = Path("/usr/bin/busybox")
BUSYBOX_IMAGE = "docker.io/stoker-e2e/busybox:dev"
READ_BYTES = 1 << 20


def docker_archive(tag: str, files: Mapping[str, bytes], links: Mapping[str, str], command: list[str]) -> bytes:
    """Return a docker-archive (as `docker save` writes) with one layer: executable files, symlinks, and a /tmp."""
    layer = _tar(files, links, folders=("tmp",))
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    parts = {"manifest.json": manifest, "config.json": config}
    return _tar({name: json.dumps(part).encode() for name, part in parts.items()} | {"layer.tar": layer}, {})


def _tar(files: Mapping[str, bytes], links: Mapping[str, str], folders: tuple[str, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()


def builtin_archives() -> dict[str, bytes]:
    """Return the archives of the pause image and of a busybox for tests, by file name."""
    binary = {"bin/busybox": BUSYBOX.read_bytes()}
    applets = {f"bin/{name}": "busybox" for name in run(BUSYBOX, "--list").split() if name != "busybox"}
    pause = docker_archive(PAUSE_IMAGE, binary, {}, ["/bin/busybox", "sleep", "infinity"])
    return {"pause.tar": pause, "busybox.tar": docker_archive(BUSYBOX_IMAGE, binary, applets, ["/bin/sh"])}


class ImageStore:
    """The archives that a cluster's nodes hold: each is kept once, so that a node that joins later gets it too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add_builtin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, content in builtin_archives().items():
            (self._folder / name).write_bytes(content)

    def add(self, archive: Path) -> Path:
        """Keep an archive, by a hard link where possible, and return where it is kept."""
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = self._folder / f"{digest(archive)}.tar"
        if not kept.exists():
            try:
                os.link(archive, kept)
            except OSError:  # another file system, or one without hard links
                shutil.copy(archive, kept)
        return kept

    def archives(self) -> list[Path]:
        """Return what is kept, oldest first, so that of two images of one tag the newer wins."""
        return sorted(self._folder.glob("*.tar"), key=lambda path: path.stat().st_mtime)


def digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    summed = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(READ_BYTES):
            summed.update(block)
    return summed.hexdigest()
