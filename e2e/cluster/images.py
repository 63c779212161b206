"""Images without a registry: the two that every node needs, and the store that fills new nodes."""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

from e2e.cluster.errors import UsageError
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
    """The archives on a cluster's nodes. Each is stored once, so that later nodes get it too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add_builtin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, content in builtin_archives().items():
            (self._folder / name).write_bytes(content)

    def holds(self, archive: Path) -> bool:
        """Return True if this exact file is already stored."""
        kept = self._place(archive)
        return kept.exists() and kept.samefile(archive)

    def add(self, archive: Path) -> None:
        """Store an archive in place of an older one of its tag, as a hard link if possible."""
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = self._place(archive)
        kept.unlink(missing_ok=True)
        try:
            os.link(archive, kept)
        except OSError:  # a different file system, or one without hard links
            shutil.copy(archive, kept)

    def _place(self, archive: Path) -> Path:
        return self._folder / (re.sub(r"[^\w.-]", "_", first_tag(archive)) + ".tar")

    def archives(self) -> list[Path]:
        """Return the stored archives, one for each tag."""
        return sorted(self._folder.glob("*.tar"))


def first_tag(archive: Path) -> str:
    """Return the first tag in a docker-archive. Raises UsageError for an invalid archive."""
    try:
        with tarfile.open(archive) as tar:
            manifest = json.load(cast(IO[bytes], tar.extractfile("manifest.json")))
        return str(manifest[0]["RepoTags"][0])
    except (OSError, tarfile.TarError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UsageError(
            f"{archive} is not a docker-archive with a tag ({type(error).__name__}); make it with `image build`."
        ) from error


def digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    summed = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(READ_BYTES):
            summed.update(block)
    return summed.hexdigest()
