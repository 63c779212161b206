"""Checks that a manifest file from another node is the version it claims to be."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from stoker_sidecar.cache.manifest import ROOT_INO, Entry, Manifest, ManifestInfo
from stoker_sidecar.core.canonical import CanonicalDigest
from stoker_sidecar.core.keys import skip_reason
from stoker_sidecar.errors import ManifestInvalid


def verify(path: Path, digest: str) -> ManifestInfo:
    """Recompute the digest from the rows, in one pass. Raises ManifestInvalid when anything does not fit."""
    manifest = Manifest.open(path)
    try:
        _check_numbers(manifest)
        found = _digest(manifest)
        if not found == digest == manifest.info.digest:
            raise ManifestInvalid(f"the manifest holds version {found} where {digest} was asked for")
        return manifest.info
    finally:
        manifest.close()


def _check_numbers(manifest: Manifest) -> None:
    for before, after in pairwise(manifest.entries()):
        if after.ino != before.ino + 1 or not ROOT_INO <= after.parent < after.ino:
            raise ManifestInvalid(f"the manifest's inode {after.ino} (parent {after.parent}) is out of order")


def _digest(manifest: Manifest) -> str:
    digest = CanonicalDigest()
    for path, entry in _walk(manifest):
        if entry.is_dir:
            digest.add_folder(path)
        else:
            digest.add_file(path, entry.size, entry.etag, entry.version_id, entry.mtime_ns)
    return digest.hexdigest()


def _walk(manifest: Manifest) -> Iterator[tuple[bytes, Entry]]:
    """Depth-first, as numbered; only the open folders' paths are in memory."""
    open_folders: list[tuple[int, bytes]] = [(ROOT_INO, b"")]
    for entry in manifest.entries(after=ROOT_INO):
        while open_folders and open_folders[-1][0] != entry.parent:
            open_folders.pop()
        if not open_folders:
            raise ManifestInvalid(f"the manifest's inode {entry.ino} has no open folder {entry.parent}")
        path = b"/".join(filter(None, (open_folders[-1][1], entry.name)))
        if b"/" in entry.name or skip_reason(path, 0) is not None:
            raise ManifestInvalid(f"the manifest's path {path!r} cannot be a file")
        if entry.is_dir:
            open_folders.append((entry.ino, path))
        yield path, entry
