"""Archives whose bytes depend only on names, modes and contents."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

EPOCH = 315_532_800  # 1980-01-01, the oldest time that a zip file can have
PROGRAM, FILE = 0o755, 0o644


@dataclass(frozen=True)
class ArchivedFile:
    """A file in an archive."""

    content: bytes
    mode: int = FILE


def write_tar_gz(target: Path, files: Mapping[str, ArchivedFile]) -> None:
    """Write files as a compressed archive, in the order of their names."""
    with target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as stream:
        write_tar(stream, dict(sorted(files.items())))


def write_tar(stream: io.BufferedIOBase | gzip.GzipFile, files: Mapping[str, ArchivedFile]) -> None:
    """Write files as an archive, in the given order."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, file in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(file.content), file.mode, EPOCH
            tar.addfile(entry, io.BytesIO(file.content))


def read_tar_gz(source: Path) -> dict[str, ArchivedFile]:
    """Return the files of an archive."""
    with tarfile.open(source) as tar:
        members = [member for member in tar if member.isfile()]
        return {member.name: ArchivedFile(_content(tar, member), member.mode) for member in members}


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(member)
    return stream.read() if stream else b""
