"""Writes the layers of an image again, so that they depend only on the names, modes and contents of files."""

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from tools.release.archives import EPOCH

# Files of the machine that built the image, and logs and caches with times.
LEFT_OUT = re.compile(
    r"etc/(?:apt/sources\.list|hostname|resolv\.conf|machine-id)|var/log/.+|var/cache/(?:apt|ldconfig)/.+"
    r"|var/(?:lib/dpkg|cache/debconf)/.+-old|etc/.+-|run/.+"
)
# Files that describe the packages of an image: Debian's, and Python's.
_DESCRIPTIONS = re.compile(r"var/lib/dpkg/status|.+\.dist-info/METADATA")


@dataclass(frozen=True)
class Layer:
    """A compressed layer: its blob's digest and bytes, and digest and bytes of its uncompressed archive."""

    digest: str
    size: int
    diff_id: str
    unpacked: int
    descriptions: dict[str, bytes] = field(default_factory=dict, repr=False)


class _Hashed(io.RawIOBase):
    """Passes bytes on, and hashes and counts them."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self.sum = hashlib.sha256()
        self.bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.sum.update(data)
        self.bytes += len(data)
        self._target.write(data)
        return len(data)


def write_layer(source: IO[bytes], blobs: Path) -> Layer:
    """Write an uncompressed layer as a blob that is named after its digest."""
    draft = blobs / "draft"
    descriptions: dict[str, bytes] = {}
    with draft.open("wb") as file:
        packed = _Hashed(file)
        # The level is named, so that a new default of Python does not change digests.
        with gzip.GzipFile("", "wb", 6, cast(IO[bytes], packed), mtime=0) as compressed:
            unpacked = _Hashed(cast(IO[bytes], compressed))
            _copy(source, cast(IO[bytes], unpacked), descriptions)
    digest = packed.sum.hexdigest()
    draft.rename(blobs / digest)
    return Layer(digest, packed.bytes, unpacked.sum.hexdigest(), unpacked.bytes, descriptions)


def _copy(source: IO[bytes], target: IO[bytes], descriptions: dict[str, bytes]) -> None:
    with _archives(source, target) as (old, new):
        for member in _kept(old):
            stream = old.extractfile(member) if member.isreg() else None
            content = stream.read() if stream else b""
            if _DESCRIPTIONS.fullmatch(member.name):
                descriptions[member.name] = content
            new.addfile(member, io.BytesIO(content))


@contextmanager
def _archives(source: IO[bytes], target: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarFile]]:
    with (
        tarfile.open(fileobj=source, mode="r|") as old,
        tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as new,
    ):
        yield old, new


def _kept(layer: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the entries that belong to the image, with a fixed time and without names of users."""
    for member in layer:
        member.name = member.name.removeprefix("./").rstrip("/")
        if LEFT_OUT.fullmatch(member.name.replace(".wh.", "")) and not member.isdir():
            continue
        attributes = {key: value for key, value in member.pax_headers.items() if key.startswith("SCHILY.xattr.")}
        member.pax_headers = dict(sorted(attributes.items()))
        member.mtime, member.uname, member.gname = EPOCH, "", ""
        yield member
